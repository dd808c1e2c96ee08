"""Events: what became of each misplaced key, for whoever listens."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import Any, Callable, NamedTuple

from triton_ascend_compat.decision.plan import Fate


class Event(NamedTuple):
    """The fate of one key of one kernel.

    Attributes:
        kernel: the kernel's name, or what stands for it where no kernel is known (`triton.Config`).
        code: the code of its function; None where it has none.
        fate: what became of the key.
        line: `file:line` of the caller, where no kernel is known.
    """

    kernel: str
    code: CodeType | None
    fate: Fate
    line: str | None = None

    @property
    def location(self) -> str | None:
        """`file:line` of the kernel; of the caller where no kernel is known; None where nobody can tell."""
        return f"{self.code.co_filename}:{self.code.co_firstlineno}" if self.code is not None else self.line


Listener = Callable[[Sequence[Event]], None]

_listeners: tuple[Listener, ...] = ()


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` with the events of every later call, on its thread; returns what unsubscribes it.

    What a listener raises is logged, and ends neither the compile nor another listener's hearing.
    """
    global _listeners
    _listeners += (listener,)

    def unsubscribe() -> None:
        global _listeners
        _listeners = tuple(each for each in _listeners if each is not listener)

    return unsubscribe


def code_of(fn: Any) -> CodeType | None:
    """The code of kernel `fn` (a JITFunction or its function); None where it has no Python source."""
    return getattr(getattr(fn, "fn", fn), "__code__", None)


def emit(told: Sequence[Event]) -> None:
    """Tell every listener of all keys of one call; called by `tell` only."""
    for listener in _listeners:
        try:
            listener(told)
        except Exception:
            from triton_ascend_compat import settings

            settings.logger().exception("a listener failed on %s", told)
