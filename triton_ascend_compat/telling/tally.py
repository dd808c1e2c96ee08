"""What became of misplaced keys in this process, counted: `report()` and the summary at its end.

Nothing here takes a lock: threads that compile would wait for each other, and a fork or an interrupt might
find it taken. Each step on the way of an event is one that the interpreter does not divide.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

from triton_ascend_compat.decision.plan import Fate, Outcome
from triton_ascend_compat.telling.events import Event

_WORDS = {Outcome.DELIVERED: "moved", Outcome.IGNORED: "left out", Outcome.REFUSED: "refused"}


@dataclass(frozen=True)
class Row:
    """One key of one kernel and what became of it, `count` times; `fate` is the latest."""

    kernel: str
    location: str | None
    fate: Fate
    count: int


@dataclass(frozen=True)
class Report:
    """What became of misplaced keys in this process so far; `str()` of it is for people."""

    rows: tuple[Row, ...]

    def count(self, outcome: Outcome) -> int:
        """How often keys had this outcome."""
        return sum(row.count for row in self.rows if row.fate.outcome is outcome)

    def as_dict(self) -> dict[str, Any]:
        """For `json.dumps`; values are given as their `repr`."""
        return {
            **{outcome.value: self.count(outcome) for outcome in _WORDS},
            "rows": [
                {
                    "key": row.fate.key,
                    "value": repr(row.fate.value),
                    "where": row.fate.where.value,
                    "outcome": row.fate.outcome.value,
                    "reason": row.fate.why,
                    "kernel": row.kernel,
                    "location": row.location,
                    "count": row.count,
                }
                for row in self.rows
            ],
        }

    def __str__(self) -> str:
        totals = ", ".join(f"{self.count(outcome)} {word}" for outcome, word in _WORDS.items())
        lines = [f"triton_ascend_compat: misplaced compile options: {totals}"]
        for row in self.rows:
            fate, at = row.fate, f" at {row.location}" if row.location else ""
            lines.append(
                f"  {_WORDS[fate.outcome]} {row.count}x: {fate.key}={fate.value!r} in {fate.where}, "
                f"{row.kernel}{at}: {fate.why}"
            )
        return "\n".join(lines)


class _Place:
    """The events of one key of one kernel."""

    def __init__(self) -> None:
        self.times = itertools.count()
        self.latest: Event | None = None

    @property
    def count(self) -> int:
        return int(repr(self.times)[len("count(") : -1])  # the only way to look at it without counting


_places: dict[tuple[Any, ...], _Place] = {}


def count(event: Event) -> None:
    """Count an event."""
    kernel, code, fate, line = event
    key = (fate.key, fate.where, fate.outcome, kernel, code, line)
    place = _places.get(key)
    if place is None:
        place = _places.setdefault(key, _Place())
    place.latest = event
    next(place.times)


def current() -> Report:
    """The report so far."""
    return Report(
        tuple(
            Row(place.latest.kernel, place.latest.location, place.latest.fate, place.count)
            for place in tuple(_places.values())
            if place.latest is not None and place.count
        )
    )


def forget() -> None:
    """Start counting afresh."""
    _places.clear()


@functools.cache
def print_at_exit() -> None:
    """Print the report to stderr when this process ends; twice is once."""
    import atexit
    import sys

    atexit.register(lambda: print(current(), file=sys.stderr))
