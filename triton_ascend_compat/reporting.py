"""How what became of a key is told: an error for a refused one, one warning for an absent one, a line of
log for a delivered one, an event for all."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Mapping
from typing import Any

from triton_ascend_compat import errors, events, generations, plan, settings
from triton_ascend_compat.events import KeyEvent, Outcome
from triton_ascend_compat.record import Record

_lock = threading.Lock()
_warned: set[str] = set()


def report(fn: Any, record: Record, strict: bool) -> None:
    """Tell what became of the leaked keys of a source of kernel `fn`, once a source.

    Args:
        fn: the JITFunction.
        record: the source's record.
        strict: whether an option that is absent here is an error.

    Raises:
        CompileOptionError: a key is refused, every time; or is absent here, in strict mode.
    """
    if record["reported"]:
        return
    location = generations.kernel_location(fn)
    told = [
        KeyEvent(fn.__name__, key, value, Outcome(outcome), reason, location)
        for key, value, outcome, reason in record["verdicts"]
    ]
    for event in told:
        events.emit(event)
    wrong = [event for event in told if event.outcome is Outcome.REFUSED]
    if strict:
        wrong += [event for event in told if event.outcome is Outcome.IGNORED]
    if wrong:
        message = _refusal(fn, wrong)
        # Tuners skip the candidate without a word; this line is what their user sees.
        settings.logger().warning("refused: %s", message)
        raise errors.CompileOptionError(message, tuple(event.key for event in wrong))
    for event in told:
        if event.outcome is Outcome.IGNORED:
            _warn_once(event)
        else:
            settings.logger().debug(
                "kernel %s: %s=%r moved from constants to options", event.kernel, event.key, event.value
            )
    record["reported"] = True


def log_conflicts(fn: Any, delivered: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Log where a delivered option overrides another value that the caller gave in `options=`."""
    for key, value in delivered.items():
        if key in asked and plan.plain_value(asked[key]) != value:
            settings.logger().info(
                "kernel %s: %s=%r from the constants replaces %r from options=",
                fn.__name__,
                key,
                value,
                asked[key],
            )


def _refusal(fn: Any, wrong: list[KeyEvent]) -> str:
    """`'KEY' is not in list` has to stay in it: callers match on Triton's words."""
    parts = []
    for event in wrong:
        reason = event.reason
        if event.outcome is Outcome.IGNORED:
            reason = (
                f"compile option {event.key!r} is {reason} ({generations.installed_release()}); strict mode"
            )
        parts.append(reason)
    where = f" at {wrong[0].location}" if wrong[0].location else ""
    return f"{'; '.join(parts)} [kernel {fn.__name__}({', '.join(fn.arg_names)}){where}]"


def _warn_once(event: KeyEvent) -> None:
    with _lock:
        if event.key in _warned:
            return
        _warned.add(event.key)
    try:
        warnings.warn(
            f"{generations.installed_release()} has no compile option {event.key!r}: {event.key}="
            f"{event.value!r} is left out of kernel {event.kernel} ({event.reason})",
            errors.AbsentOptionWarning,
            stacklevel=_stacklevel_outside(),
        )
    except errors.AbsentOptionWarning:  # warnings are errors here: so is the next one
        _warned.discard(event.key)
        raise


def forget_warnings() -> None:
    """Warn anew of every absent option, as in a fresh process."""
    with _lock:
        _warned.clear()


def _stacklevel_outside() -> int:
    """The `warnings.warn` stacklevel, from `_warn_once`, of the first caller outside Triton and the shim."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "triton",
        __name__.partition(".")[0],
    ):
        level, frame = level + 1, frame.f_back
    return level
