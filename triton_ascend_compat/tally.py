"""What became of misplaced keys in this process, counted: `report()` and the summary at its end."""

from __future__ import annotations

import functools
import threading
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from triton_ascend_compat import events
from triton_ascend_compat.events import KeyEvent, Outcome

_WORDS = {Outcome.DELIVERED: "moved", Outcome.IGNORED: "left out", Outcome.REFUSED: "refused"}


@dataclass(frozen=True)
class Row:
    """One key of one kernel and what became of it, `count` times; `value` and `reason` are the latest."""

    key: str
    outcome: Outcome
    kernel: str
    location: str | None
    count: int
    value: Any
    reason: str


@dataclass(frozen=True)
class Report:
    """What became of misplaced keys in this process so far; `str()` of it is for people."""

    rows: tuple[Row, ...]

    def count(self, outcome: Outcome) -> int:
        """How often keys had this outcome."""
        return sum(row.count for row in self.rows if row.outcome is outcome)

    def as_dict(self) -> dict[str, Any]:
        """For `json.dumps`; values are given as their `repr`."""
        return {
            **{outcome.value: self.count(outcome) for outcome in Outcome},
            "rows": [
                {**asdict(row), "outcome": row.outcome.value, "value": repr(row.value)} for row in self.rows
            ],
        }

    def __str__(self) -> str:
        totals = ", ".join(f"{self.count(outcome)} {word}" for outcome, word in _WORDS.items())
        lines = [f"triton_ascend_compat: misplaced compile options: {totals}"]
        lines += [
            f"  {_WORDS[row.outcome]} {row.count}x: {row.key}={row.value!r}, {row.kernel}"
            f"{f' at {row.location}' if row.location else ''}: {row.reason}"
            for row in self.rows
        ]
        return "\n".join(lines)


_lock = threading.Lock()
_rows: dict[tuple[str, Outcome, str, str | None], Row] = {}
_listening = False

#: Events not counted yet. Threads that compile only append here: a lock that each of them takes for each
#: source makes them wait for one another, and doubled what a source takes on two threads.
_pending: deque[KeyEvent] = deque()
_PENDING_AT_MOST = 64


def listen() -> None:
    """Count every later event; twice is once."""
    global _listening
    with _lock:
        if not _listening:
            _listening = True
            events.subscribe(_count)


def _count(event: KeyEvent) -> None:
    _pending.append(event)
    if len(_pending) >= _PENDING_AT_MOST and _lock.acquire(blocking=False):
        try:
            _count_pending()
        finally:
            _lock.release()


def _count_pending() -> None:
    """Count what is pending; call it under the lock."""
    while _pending:
        event = _pending.popleft()
        place = (event.key, event.outcome, event.kernel, event.location)
        count = _rows[place].count + 1 if place in _rows else 1
        _rows[place] = Row(*place, count, event.value, event.reason)


def current() -> Report:
    """The report so far."""
    with _lock:
        _count_pending()
        return Report(tuple(_rows.values()))


def forget() -> None:
    """Start counting afresh."""
    with _lock:
        _pending.clear()
        _rows.clear()


@functools.cache
def print_at_exit() -> None:
    """Print the report to stderr when this process ends; twice is once."""
    import atexit
    import sys

    atexit.register(lambda: print(current(), file=sys.stderr))
