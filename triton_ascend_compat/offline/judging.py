"""Which compiles that failed fail a test or a check, where a tuner went on without them."""

from __future__ import annotations

from collections.abc import Iterable

from triton_ascend_compat.offline.records import CompileRecord

#: Which failing configs of a tuner count while another config of the same run compiles: all of them; those
#: that a tuner is not there to skip (on-chip memory, a `static_assert`); none.
POLICIES = ("all", "unexpected", "none")
DEFAULT_POLICY = "unexpected"


def failing(records: Iterable[CompileRecord], policy: str = DEFAULT_POLICY) -> list[CompileRecord]:
    """The records that count as failures. Outside of a tuner all that failed do, and so do the configs of a
    tuner's run in which none compiles.

    Args:
        records: those of one session.
        policy: one of `POLICIES`.
    """
    records = list(records)
    remains = {record.tuning for record in records if record.ok and record.tuning is not None}
    return [
        record
        for record in records
        if not record.ok
        and not (
            record.tuning in remains and (policy == "none" or (policy == "unexpected" and record.ruled_out))
        )
    ]
