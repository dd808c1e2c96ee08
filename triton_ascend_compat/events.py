"""What happened to a misplaced key, told to whoever listens.

The shim decides (`plan`) and acts (`source`); this module carries the news. The offline recorder, the
pytest plugin and the reports subscribe here, so that the shim knows none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable


class Outcome(str, Enum):
    """What became of one key."""

    DELIVERED = "delivered"
    """It left the constants and arrived in the options the backend parses."""
    IGNORED = "ignored"
    """It is known, but not an option of this installation: left out, with one warning."""
    REFUSED = "refused"
    """Nobody knows it, or its value does not fit: an error."""


@dataclass(frozen=True)
class KeyEvent:
    """One key of one kernel source, and what became of it.

    `value` is the plain Python value (constexpr and NumPy scalars already unwrapped). `location` is
    `file:line` of the kernel, or None where the kernel has no Python source.
    """

    kernel: str
    key: str
    value: Any
    outcome: Outcome
    reason: str
    location: str | None = None


Listener = Callable[[KeyEvent], None]

_listeners: list[Listener] = []


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` for every later event, on the thread that caused it; returns what unsubscribes it."""
    _listeners.append(listener)

    def unsubscribe() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return unsubscribe


def emit(event: KeyEvent) -> None:
    """Tell every listener; called by the shim only."""
    for listener in tuple(_listeners):
        listener(event)
