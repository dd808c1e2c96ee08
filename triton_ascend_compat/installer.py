"""Installs the fixes and takes them away: imports first, locks after; an attribute is written down before it
is replaced; the switch is set last. So it can be interrupted at any line, and be called again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection, Iterable

from triton_ascend_compat import generations, settings, shim
from triton_ascend_compat.errors import CompatError
from triton_ascend_compat.fixes import FIXES, NAMES, Fix, Wrapping
from triton_ascend_compat.generations import Generation
from triton_ascend_compat.shim import Hook, Switch
from triton_ascend_compat.startup import import_hook

_lock = threading.RLock()

#: The attributes that hold, or may hold, a wrapper of ours.
_ledger: list[Hook] = []


def _after_fork_in_child() -> None:
    """A thread that the child lacks may have held the lock; what it left half done can be done again."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def install(strict: bool | None = None, without: Collection[str] | None = None) -> None:
    """Switch the shim on, in a Triton that is imported. Twice is once; the second time may change what the
    arguments say. A call that fails changes nothing.

    Args:
        strict: whether an option that is absent here is an error; None asks the environment.
        without: the names of fixes, or of the data `renames` and `foreign`, that are not to act; None asks
            the environment.

    Raises:
        CompatError: Triton has a shape that the shim does not know, or a name in `without` is unknown.
    """
    wanted = _wanted(strict, without)
    try:
        generation = generations.detect()
        off = dict(wanted.without)
        parts = [(fix, _wrappings(fix, generation, off)) for fix in FIXES]
        with _lock:
            failed = _put_all(parts, off)
            fixes = frozenset(fix.name for fix in FIXES if fix.name not in off)
            shim.switch = Switch(True, fixes, wanted.strict, wanted.without, off, generation)
    except CompatError:
        raise
    except Exception as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise CompatError(f"this Triton cannot be wrapped: {told}") from error
    for fix in FIXES:
        if fix.awaits and fix.name in fixes:
            import_hook.arm(fix.awaits, wrap_late)
    for line in failed:
        settings.logger().warning("%s", line)
    if settings.summary_from_environment():
        from triton_ascend_compat.telling import tally

        tally.print_at_exit()


def remember(strict: bool | None = None, without: Collection[str] | None = None) -> None:
    """Take note of what is wanted of a Triton that is not imported yet; `install` then does it.

    Raises:
        CompatError: a name in `without` is unknown.
    """
    shim.switch = _wanted(strict, without)


def _wanted(strict: bool | None, without: Collection[str] | None) -> Switch:
    """A switch that holds what is asked for; where nothing is, what was asked for before, or else what the
    environment asks for."""
    if without is not None and not set(NAMES).issuperset(without):
        unknown = ", ".join(sorted(set(without) - set(NAMES)))
        raise CompatError(f"no fix is called {unknown}; there are: {', '.join(NAMES)}")
    now = shim.switch
    if strict is None:
        strict = now.strict if now.asked else settings.strict_from_environment()
    if without is not None:
        return Switch(
            True, strict=strict, without=dict.fromkeys(without, "switched off by enable(without=…)")
        )
    return Switch(True, strict=strict, without=now.without if now.asked else _disabled_from_environment())


def _disabled_from_environment() -> dict[str, str]:
    variable = settings.DISABLE_VARIABLE
    names = settings.disabled_from_environment()
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        settings.logger().warning(
            "%s: no fix is called %s; there are: %s", variable, ", ".join(unknown), ", ".join(NAMES)
        )
    return dict.fromkeys((name for name in names if name in NAMES), f"switched off by {variable}")


def _wrappings(fix: Fix, generation: Generation, off: dict[str, str]) -> list[Wrapping]:
    """What `fix` is to wrap; where it is not to act, nothing, and `off` says why."""
    if fix.name in off:
        return []
    try:
        reason = fix.unneeded()
        if reason:
            off[fix.name] = f"not needed: {reason}"
            return []
        return fix.wrappings(generation)
    except Exception as error:
        if fix is FIXES[0]:
            raise
        off[fix.name] = f"failed: {type(error).__name__}: {error}"
        return []


def _put_all(parts: Iterable[tuple[Fix, list[Wrapping]]], off: dict[str, str]) -> list[str]:
    """Wrap what is not wrapped yet; returns a line for each fix that failed. A fix goes on or off as a whole,
    and without the first there are none."""
    failed = []
    for fix, wrappings in parts:
        before = list(_ledger)
        try:
            for wrapping in wrappings:
                _put(wrapping)
        except BaseException as error:
            for hook in [hook for hook in _ledger if hook not in before]:
                hook.undo()
            _ledger[:] = before
            if fix is FIXES[0] or not isinstance(error, Exception):
                raise
            off[fix.name] = f"failed: {type(error).__name__}: {error}"
            failed.append(f"the fix {fix.name} stays off: {off[fix.name]}")
    return failed


def _put(wrapping: Wrapping) -> None:
    """Wrap an attribute unless a wrapper of ours for it is in force, perhaps under somebody else's."""
    owner, name, make = wrapping
    mine = [hook for hook in _ledger if (hook.owner, hook.name, hook.make) == wrapping]
    if not any(hook.in_force for hook in mine):
        for hook in mine:  # somebody has put back what was there before us
            _ledger.remove(hook)
        hook = Hook(owner, name, make)
        _ledger.append(hook)
        hook.put()


def wrap_late() -> None:
    """Wrap what Triton has imported only now."""
    switch = shim.switch
    late = [fix for fix in FIXES if fix.awaits and fix.name in switch.fixes]
    wrappings = [wrapping for fix in late for wrapping in fix.wrappings(switch.generation)]
    with _lock:
        for wrapping in wrappings:
            _put(wrapping)


def uninstall() -> list[str]:
    """Switch the shim off and put back what was there; returns the names of the attributes where somebody
    else has wrapped on top: there our wrapper stays, inert."""
    shim.switch = Switch(False)
    for fix in FIXES:
        if fix.awaits:
            import_hook.disarm(fix.awaits, wrap_late)
    with _lock:
        for hook in reversed(tuple(_ledger)):
            if hook.undo():
                _ledger.remove(hook)
        left = [hook.label for hook in _ledger]
    if left:
        settings.logger().warning(
            "switched off; wrapped by others since, so left in place and inert: %s", ", ".join(left)
        )
    return left


def install_automatically() -> None:
    """Switch the shim on from the start-up path, as early calls have asked for; nothing is left to do where a
    call has just done so in this Triton."""
    switch = shim.switch
    done = switch.generation is not None and switch.generation.source_class is generations.live_source_class()
    if switch.asked is not False and not done:
        install()


def wrapped() -> tuple[str, ...]:
    """The attributes that hold a wrapper of ours, inert ones included."""
    return tuple(dict.fromkeys(hook.label for hook in tuple(_ledger) if hook.in_force))


def is_imported() -> bool:
    """Whether Triton is imported. Where another thread is importing it, wait for that in the one safe way, by
    `import triton` (3.2.0 deadlocks where one thread does that and another imports a submodule)."""
    if "triton" in sys.modules and generations.live_source_class() is None:
        import triton  # noqa: F401
    return generations.live_source_class() is not None or generations.is_imported()
