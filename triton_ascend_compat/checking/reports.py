"""The results of `check` as a table, JSON, JUnit XML, or annotations for GitHub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from triton_ascend_compat.checking.jobs import Outcome
from triton_ascend_compat.decision.plan import Outcome as KeyOutcome
from triton_ascend_compat.offline.records import CompileRecord

NOT_EXECUTED = "Compiled only: nothing was executed or timed, and CANN's code generator did not run."


_FATES = {
    KeyOutcome.DELIVERED: "moved to the options from",
    KeyOutcome.IGNORED: "no option of this release, left out of",
    KeyOutcome.REFUSED: "refused in",
}


def describe_config(config: Mapping[str, Any]) -> str:
    """`XBLOCK=1024 num_stages=2`; `-` for a kernel that has nothing to configure."""
    return " ".join(f"{key}={value}" for key, value in config.items()) or "-"


def describe_error(record: CompileRecord) -> str:
    """What is wrong with a kernel that did not compile, in one line, with the config that would fit."""
    if record.overflow is None:
        where = f" (at {_short(record.error_location)})" if record.error_location is not None else ""
        return f"{record.error}{where}"
    fits = f"; the largest that fits: {describe_config(record.fits)}" if record.fits else ""
    return f"{record.overflow}{fits}"


def describe_keys(record: CompileRecord) -> list[str]:
    """What became of each misplaced key, and which options the backend dropped; a phrase each."""
    told = [
        f"{fate.key}={fate.value!r}: {_FATES[fate.outcome]} {fate.where}"
        for fate in record.keys
        if not fate.quiet
    ]
    return told + [f"{key}={record.asked[key]!r}: dropped by the backend" for key in record.dropped]


def varying(records: Sequence[CompileRecord]) -> list[dict[str, Any]]:
    """For the records of one kernel: of each config, what is not the same in all; the whole config where
    nothing differs."""
    shared = {
        key: value
        for key, value in records[0].config.items()
        if all(key in record.config and record.config[key] == value for record in records)
    }
    if all(dict(record.config) == shared for record in records):
        shared = {}
    return [{k: v for k, v in record.config.items() if k not in shared} for record in records]


def by_kernel(records: Iterable[CompileRecord]) -> dict[tuple[str, str | None, str], list[CompileRecord]]:
    """The records by kernel, its location and the chip."""
    groups: dict[tuple[str, str | None, str], list[CompileRecord]] = {}
    for record in records:
        groups.setdefault((record.kernel, record.location, record.chip), []).append(record)
    return groups


def summary(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Counts over all outcomes."""
    records = [record for outcome in outcomes for record in outcome.records]
    return {
        "kernels": len({(record.kernel, record.location) for record in records}),
        "compiles": len(records),
        "failed": sum(not record.ok for record in records),
        "from_cache": sum(record.cached for record in records),
        "keys_moved": sum(len(record.keys_that_were(KeyOutcome.DELIVERED)) for record in records),
        "keys_ignored": sum(len(record.keys_that_were(KeyOutcome.IGNORED)) for record in records),
        "keys_refused": sum(len(record.keys_that_were(KeyOutcome.REFUSED)) for record in records),
        "options_dropped": sum(len(record.dropped) for record in records),
        "targets_failed": sum(outcome.failure is not None for outcome in outcomes),
    }


def as_table(outcomes: Sequence[Outcome]) -> str:
    """For people: each kernel with a line per config, then what went wrong, then the counts."""
    lines = []
    for (kernel, location, chip), records in by_kernel(_all(outcomes)).items():
        configs = [describe_config(config) for config in varying(records)]
        width = max(len(config) for config in configs)
        lines.append(f"{kernel}  {_short(location)}  {chip}")
        for config, record in zip(configs, records):
            state, *remarks = _result(record)
            lines.append(f"  {config:<{width}}  {record.milliseconds:6.0f} ms  {state}")
            lines += [f"  {'':<{width}}  {'':9}  {remark}" for remark in remarks]
        lines.append("")
    failures = [
        f"{outcome.job.target.label} ({outcome.job.chip}) failed: {outcome.failure}"
        for outcome in outcomes
        if outcome.failure is not None
    ]
    lines += [*failures, "", summary_line(outcomes)] if failures else [summary_line(outcomes)]
    lines.append(NOT_EXECUTED)
    return "\n".join(lines) + "\n"


def summary_line(outcomes: Sequence[Outcome]) -> str:
    """The counts that are not zero, in one line."""
    counts = summary(outcomes)
    kernels, compiles = counts.pop("kernels"), counts.pop("compiles")
    told = [f"{compiles} compiles of {kernels} kernels", f"{counts.pop('failed')} failed"]
    told += [f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    return ", ".join(told)


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Everything that is known, for programs."""
    return json.dumps(
        {
            "version": 1,
            "executed": False,
            "summary": summary(outcomes),
            "targets": [
                {
                    "target": outcome.job.target.label,
                    "chip": outcome.job.chip,
                    "hivm": outcome.job.hivm,
                    "failure": outcome.failure,
                    "launches_not_executed": outcome.launches,
                    "compiles": [
                        {**record.as_dict(), "ok": record.ok, "stage_reached": record.stage_reached}
                        for record in outcome.records
                    ],
                }
                for outcome in outcomes
            ],
        },
        indent=2,
    )


def as_junit(outcomes: Sequence[Outcome]) -> str:
    """JUnit XML: a suite per target and chip, a test case per kernel and config."""
    root = ElementTree.Element("testsuites")
    for outcome in outcomes:
        failed = sum(not record.ok for record in outcome.records)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"{outcome.job.target.label} ({outcome.job.chip})",
            tests=str(len(outcome.records) + (outcome.failure is not None)),
            failures=str(failed),
            errors=str(int(outcome.failure is not None)),
        )
        for record in outcome.records:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=_short(record.location),
                name=f"{record.kernel}[{describe_config(record.config)}]",
                time=f"{record.milliseconds / 1e3:.3f}",
            )
            if not record.ok:
                failure = ElementTree.SubElement(
                    case, "failure", message=_xml_safe(describe_error(record)), type=str(record.error_type)
                )
                failure.text = _xml_safe(record.detail or "")
            remarks = [*describe_keys(record), *record.notes]
            if remarks:
                ElementTree.SubElement(case, "system-out").text = _xml_safe("\n".join(remarks))
        if outcome.failure is not None:
            case = ElementTree.SubElement(
                suite, "testcase", classname="target", name=outcome.job.target.label
            )
            error = ElementTree.SubElement(case, "error", message=_xml_safe(outcome.failure))
            error.text = _xml_safe(outcome.output)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def as_github(outcomes: Sequence[Outcome]) -> str:
    """Workflow commands: an annotation at the kernel's line for each config that fails or loses a key."""
    lines = []
    for record in _all(outcomes):
        config = describe_config(record.config)
        if not record.ok:
            told = f"{record.kernel} [{config}] on {record.chip}: {describe_error(record)}"
            lines.append(
                _annotation(
                    "error", "does not compile for Ascend", told, record.error_location or record.location
                )
            )
        remarks = describe_keys(record)
        if remarks:
            told = f"{record.kernel} [{config}]: {'; '.join(remarks)}"
            lines.append(_annotation("warning", "misplaced compile options", told, record.location))
        for note in record.notes if record.ok else ():
            told = f"{record.kernel} [{config}] on {record.chip}: {note}"
            lines.append(_annotation("notice", "compiled otherwise than asked", told, record.location))
    for outcome in outcomes:
        if outcome.failure is not None:
            told = f"{outcome.job.target.label} ({outcome.job.chip}): {outcome.failure}"
            lines.append(_annotation("error", "target failed", told, None))
    lines.append(summary_line(outcomes))
    return "\n".join(dict.fromkeys(lines)) + "\n"


FORMATS = {"table": as_table, "json": as_json, "junit": as_junit, "github": as_github}


def _result(record: CompileRecord) -> list[str]:
    if not record.ok:
        return [f"FAILED {describe_error(record)}"]
    state = "ok (cache)" if record.cached else "ok"
    return [state, *describe_keys(record), *record.notes]


def _annotation(level: str, title: str, message: str, location: str | None) -> str:
    fields = [f"title={_escaped(title, ',:')}"]
    if location is not None:
        file, _, line = location.rpartition(":")
        fields[:0] = [f"file={_escaped(_relative(file), ',:')}", f"line={line}"]
    return f"::{level} {','.join(fields)}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _xml_safe(text: str) -> str:
    return "".join(character for character in text if character in "\n\t" or character >= " ")


def _short(location: str | None) -> str:
    if location is None:
        return "-"
    file, _, line = location.rpartition(":")
    return f"{_relative(file)}:{line}"


def _relative(file: str) -> str:
    base = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    try:
        return str(Path(file).resolve().relative_to(base))
    except ValueError:
        return file


def _all(outcomes: Iterable[Outcome]) -> list[CompileRecord]:
    return [record for outcome in outcomes for record in outcome.records]
