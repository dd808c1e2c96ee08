"""How what became of a key is told: an error for a refused one, one warning for an absent one, a line of
log for a delivered one, an event for all."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

from triton_ascend_compat import errors, events, generations, plan, settings, tally
from triton_ascend_compat.events import KeyEvent, Outcome
from triton_ascend_compat.record import Record

_lock = threading.Lock()
_warned: set[str] = set()

tally.listen()  # before the first event


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
    verdicts = [
        plan.Verdict(key, value, Outcome(outcome), reason, quiet=quiet)
        for key, value, outcome, reason, quiet in record["verdicts"]
    ]
    tell(fn, verdicts, strict)
    record["reported"] = True


def tell(fn: Any, verdicts: Iterable[plan.Verdict], strict: bool) -> None:
    """Tell what became of the misplaced keys of one call.

    Args:
        fn: the kernel (a JITFunction or its function); a str names the call where no kernel is known.
        verdicts: one for each key.
        strict: whether an option that is absent here is an error.

    Raises:
        CompileOptionError: a key is refused; or is absent here, in strict mode.
    """
    verdicts = [_refused_if_ignored(verdict) for verdict in verdicts] if strict else list(verdicts)
    told = emit(fn, verdicts)
    wrong = [event for event in told if event.outcome is Outcome.REFUSED]
    if wrong:
        message = _refusal(fn, wrong)
        # Tuners skip the candidate without a word; this line is what their user sees.
        settings.logger().warning("refused: %s", message)
        raise errors.CompileOptionError(message, tuple(event.key for event in wrong))
    for event, verdict in zip(told, verdicts):
        if event.outcome is Outcome.IGNORED and not verdict.quiet:
            warn_once(
                event.key,
                f"{generations.installed_release()} has no compile option {event.key!r}: {event.key}="
                f"{event.value!r} is left out of {'' if isinstance(fn, str) else 'kernel '}{event.kernel} "
                f"({event.reason})",
                errors.AbsentOptionWarning,
            )
        else:
            settings.logger().debug(
                "kernel %s: %s=%r %s: %s",
                event.kernel,
                event.key,
                event.value,
                "moved to options" if event.outcome is Outcome.DELIVERED else "left out, asks for nothing",
                event.reason,
            )


def emit(fn: Any, verdicts: Iterable[plan.Verdict]) -> list[KeyEvent]:
    """The events of `verdicts` on the kernel `fn` (see `tell`), told to all listeners."""
    name = fn if isinstance(fn, str) else fn.__name__
    location = _caller_location() if isinstance(fn, str) else generations.kernel_location(fn)
    told = [KeyEvent(name, v.key, v.value, v.outcome, v.reason, location) for v in verdicts]
    for event in told:
        events.emit(event)
    return told


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


def _refused_if_ignored(verdict: plan.Verdict) -> plan.Verdict:
    """What strict mode makes of `verdict`."""
    if verdict.outcome is not Outcome.IGNORED or verdict.quiet:
        return verdict
    reason = (
        f"compile option {verdict.key!r} is {verdict.reason} ({generations.installed_release()}); strict mode"
    )
    return verdict._replace(outcome=Outcome.REFUSED, reason=reason)


def _refusal(fn: Any, wrong: list[KeyEvent]) -> str:
    """`'KEY' is not in list` has to stay in it: callers match on Triton's words."""
    reasons = "; ".join(event.reason for event in wrong)
    where = f" at {wrong[0].location}" if wrong[0].location else ""
    parameters = getattr(fn, "arg_names", None)
    kernel = wrong[0].kernel if parameters is None else f"{wrong[0].kernel}({', '.join(parameters)})"
    return f"{reasons} [{'' if isinstance(fn, str) else 'kernel '}{kernel}{where}]"


def warn_once(key: str, text: str, category: type[Warning]) -> None:
    """Warn of `key` unless this process has been warned of it."""
    with _lock:
        if key in _warned:
            return
        _warned.add(key)
    try:
        warnings.warn(text, category, stacklevel=_stacklevel_outside())
    except category:  # warnings are errors here: so is the next one
        _warned.discard(key)
        raise


def forget_warnings() -> None:
    """Warn anew of every key, as in a fresh process."""
    with _lock:
        _warned.clear()


def _stacklevel_outside() -> int:
    """The `warnings.warn` stacklevel, from the caller, of the first frame outside Triton and the shim."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame):
        level, frame = level + 1, frame.f_back
    return level


def _caller_location() -> str:
    """`file:line` of the first frame outside Triton and the shim."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_inside(frame: FrameType) -> bool:
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package in ("triton", __name__.partition(".")[0])
