"""Whether a check is a success: what fails it, by which rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from triton_ascend_compat.checking.jobs import Outcome
from triton_ascend_compat.offline import findings, judging
from triton_ascend_compat.offline.records import CompileRecord

KERNEL_FAILED, TARGET_FAILED = 1, 3

#: A kernel, where it stands, and the chip.
Kernel = tuple[str, "str | None", str]


class Rules(NamedTuple):
    """What fails a check beside a kernel that does not compile and a target that fails.

    Attributes:
        leaks_fail: misplaced options that deserve a warning, and options that got lost.
        allow_empty: whether a target may compile nothing.
        most_specializations: how many specializations a kernel may have; None is any number.
        tuner_failures: which configs may not fail while another of the same tuner compiles: one of
            `judging.POLICIES`.
    """

    leaks_fail: bool = False
    allow_empty: bool = False
    most_specializations: int | None = None
    tuner_failures: str = judging.DEFAULT_POLICY


#: The rules that a check has unless it is asked for others.
DEFAULT_RULES = Rules()


def by_kernel(records: Iterable[CompileRecord]) -> dict[Kernel, list[CompileRecord]]:
    """The records by kernel, its location and the chip."""
    groups: dict[Kernel, list[CompileRecord]] = {}
    for record in records:
        groups.setdefault((record.kernel, record.location, record.chip), []).append(record)
    return groups


def leaks(record: CompileRecord) -> bool:
    """Whether an option was misplaced so that it is worth a warning, or got lost."""
    return bool(record.dropped) or any(not fate.quiet for fate in record.keys)


def failing(outcomes: Iterable[Outcome], rules: Rules) -> set[int]:
    """The `id` of each record of a kernel that did not compile, without those that the rules, or tests that
    passed, let be."""
    return {
        id(record)
        for outcome in outcomes
        if not outcome.tests_passed
        for record in judging.failing(outcome.records, rules.tuner_failures)
    }


def too_many(records: Iterable[CompileRecord], rules: Rules) -> list[str]:
    """A line for each kernel that has more specializations than it may have."""
    most = rules.most_specializations
    return [
        f"{found.kernel} ({found.location}) has {found.count} specializations on {found.chip}, {most} allowed"
        for found in findings.specializations(records)
        if most is not None and found.count > most
    ]


def exit_code(outcomes: Sequence[Outcome], rules: Rules) -> int:
    """0 for a success; see the help of `check`."""
    if any(each.failure is not None or (each.empty and not rules.allow_empty) for each in outcomes):
        return TARGET_FAILED
    records = [record for outcome in outcomes for record in outcome.records]
    leaked = rules.leaks_fail and any(map(leaks, records))
    raised = any(outcome.went_on or outcome.stopped_at for outcome in outcomes)
    return KERNEL_FAILED if failing(outcomes, rules) or raised or leaked or too_many(records, rules) else 0
