"""How the fates of a call's keys are told: an error for a refused one, one warning for an absent one, a line
of log for a delivered one, an event for all. Text is made when somebody is to read it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from triton_ascend_compat import errors, frames, settings
from triton_ascend_compat.decision.plan import Fate, Outcome, Where, plain_value
from triton_ascend_compat.telling import events, tally
from triton_ascend_compat.telling.events import Event

#: What has been warned of in this process. (A dict: its `setdefault` is one step, so that no lock is needed.)
_warned: dict[str, object] = {}


def tell(fn: Any, fates: Sequence[Fate], release: str) -> None:
    """Tell what became of the misplaced keys of one call.

    Args:
        fn: the kernel (a JITFunction or its function); a str names the call where no kernel is known.
        fates: one for each key.
        release: the installed triton-ascend, for messages.

    Raises:
        CompileOptionError: a key is refused.
        KeyError, TypeError: nobody knows a keyword of a launch, or of a Config or an interpreted launch:
            what Triton and Python raise there.
    """
    line = frames.outside()[1] if isinstance(fn, str) else None
    name, code = (fn, None) if line else (fn.__name__, events.code_of(fn))
    told = [Event(name, code, fate, line) for fate in fates]
    for event in told:
        tally.count(event)
    events.emit(told)
    wrong = [event for event in told if event.fate.outcome is Outcome.REFUSED]
    if wrong:
        raise _refusal(fn, wrong)
    for event in told:
        fate = event.fate
        if fate.outcome is Outcome.IGNORED and not fate.quiet:
            if fate.option not in _warned:
                _warn(event, release)
        elif settings.logs_debug():
            became = "moved to options" if fate.outcome is Outcome.DELIVERED else "left out, asks for nothing"
            settings.logger().debug("kernel %s: %s=%r %s: %s", name, fate.key, fate.value, became, fate.why)


def _warn(event: Event, release: str) -> None:
    fate = event.fate
    kernel = "" if event.code is None else "kernel "
    text = (
        f"{release} has no compile option {fate.key!r}: {fate.key}={fate.value!r} is left out of "
        f"{fate.where} of {kernel}{event.kernel} ({fate.why})"
    )
    if fate.semantic:
        text += "; its results may differ from what they are with it"
    warn_once(
        fate.option, text, errors.SemanticOptionWarning if fate.semantic else errors.AbsentOptionWarning
    )


def _refusal(fn: Any, wrong: list[Event]) -> Exception:
    """The error for refused keys. `'KEY' is not in list` stays in it: callers match on Triton's words."""
    first = wrong[0].fate
    if first.unknown and first.where is Where.LAUNCH:
        return KeyError(first.why)
    if first.unknown and first.where in (Where.CONFIG, Where.INTERPRETER):
        name = "Config.__init__" if first.where is Where.CONFIG else fn.__name__
        return TypeError(f"{name}() {first.why}")
    reasons = "; ".join(dict.fromkeys(event.fate.why for event in wrong))
    at = f" at {wrong[0].location}" if wrong[0].location else ""
    parameters = getattr(fn, "arg_names", None)
    kernel = wrong[0].kernel if parameters is None else f"{wrong[0].kernel}({', '.join(parameters)})"
    message = f"{reasons} [in {first.where} of {'' if isinstance(fn, str) else 'kernel '}{kernel}{at}]"
    # Tuners skip the candidate without a word; this line is what their user sees.
    settings.logger().warning("refused: %s", message)
    return errors.CompileOptionError(message, tuple(event.fate.key for event in wrong))


def log_overridden(fn: Any, delivered: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Log where a delivered option overrides another value that the caller gave in `options=`."""
    for key, value in delivered.items():
        if key in asked and plain_value(asked[key]) != value:
            settings.logger().info(
                "kernel %s: %s=%r from the constants replaces %r from options=",
                fn.__name__,
                key,
                value,
                asked[key],
            )


def warn_once(key: str, text: str, category: type[Warning]) -> None:
    """Warn of `key` unless this process has been warned of it."""
    mine = object()
    if _warned.setdefault(key, mine) is not mine:
        return
    try:
        warnings.warn(text, category, stacklevel=frames.outside()[0])
    except category:  # warnings are errors here: so is the next one
        _warned.pop(key, None)
        raise


def forget_warnings() -> None:
    """Warn anew of every key, as in a fresh process."""
    _warned.clear()
