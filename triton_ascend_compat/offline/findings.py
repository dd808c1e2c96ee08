"""What the compiles of a kernel tell together: how many specializations it had, and which candidates of a
tuner are one and the same kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from triton_ascend_compat.offline.records import CompileRecord


@dataclass(frozen=True)
class Specializations:
    """How often a kernel was compiled anew for what its arguments are. `varied` says which differed, and in
    what: `n == 1`, `n divisible by 16`, `x: *fp16, *fp32`."""

    kernel: str
    location: str | None
    chip: str
    count: int
    varied: tuple[str, ...]


@dataclass(frozen=True)
class Vain:
    """Candidates of a tuner that are one kernel. `configs` are their numbers among the tuner's configs,
    `differ` the constexprs and options that they differ in; nothing, where they are the same config.
    `left_out`: whether these did not reach the compiler; else they did, and had no effect."""

    kernel: str
    location: str | None
    chip: str
    configs: tuple[int | None, ...]
    differ: tuple[str, ...]
    left_out: bool


def specializations(records: Iterable[CompileRecord]) -> list[Specializations]:
    """The specializations of each kernel, on each chip. Configs are none: constexprs and options do not
    count."""
    groups: dict[tuple[str, str | None, str], list[CompileRecord]] = {}
    for record in records:
        if record.signature:
            groups.setdefault((record.kernel, record.location, record.chip), []).append(record)
    return [
        Specializations(
            *kernel, count=len({_specialization(record) for record in group}), varied=_varied(group)
        )
        for kernel, group in groups.items()
    ]


def vain(records: Iterable[CompileRecord]) -> list[Vain]:
    """The candidates of each run of a tuner that are one kernel: they have the same hash, or, where the HIVM
    stage ran, the same final module."""
    groups: dict[tuple[Any, ...], list[CompileRecord]] = {}
    for record in records:
        if record.tuning is not None and record.ok:
            kernel = record.binary or record.hash
            groups.setdefault(
                (record.tuning, record.kernel, record.location, record.chip, kernel), []
            ).append(record)
    found = []
    for (_, kernel, location, chip, _), group in groups.items():
        numbers = tuple(dict.fromkeys(record.config_number for record in group))
        asked = [
            {**record.config, **record.asked, **{fate.key: fate.value for fate in record.keys}}
            for record in group
        ]
        names = dict.fromkeys(name for each in asked for name in each)
        differ = tuple(name for name in names if any(each.get(name) != asked[0].get(name) for each in asked))
        left_out = len({record.hash for record in group}) == 1
        if len(numbers) > 1:
            found.append(Vain(kernel, location, chip, numbers, differ, left_out and bool(differ)))
    return found


def _specialization(record: CompileRecord) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted({**record.signature, **{f"{k} ": v for k, v in record.specialization.items()}}.items())
    )


def _varied(group: list[CompileRecord]) -> tuple[str, ...]:
    varied = []
    for name in dict.fromkeys(name for record in group for name in record.signature):
        types = dict.fromkeys(
            record.signature[name]
            for record in group
            if name in record.signature and "==" not in record.specialization.get(name, "")
        )
        if len(types) > 1:
            varied.append(f"{name}: {', '.join(types)}")
        granted = dict.fromkeys(record.specialization.get(name) for record in group)
        if len(granted) > 1:
            varied += [f"{name} {what}" for what in granted if what is not None]
    return tuple(varied)
