"""Installs the fixes and takes them away: resolve all, wrap all, keep a ledger, set the flag last."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from typing import Any, Callable

from triton_ascend_compat import generations, settings
from triton_ascend_compat.errors import CompatError
from triton_ascend_compat.fixes import FIXES, NAMES
from triton_ascend_compat.shim import CONSTANTS, Fix, Hook, Shim
from triton_ascend_compat.startup import import_hook

_lock = threading.RLock()

_ALL_NAMES = ", ".join(fix.name for fix in FIXES)


class _State:
    """What is installed in this process. `reason` says in one sentence why it is on or off, `off` of each
    fix that does not act why; `without` holds the fixes that were switched off, and by what."""

    def __init__(self) -> None:
        self.shim: Shim | None = None
        self.ledger: list[Hook] = []
        self.reason = ""
        self.off: dict[str, str] = {}
        self.without: dict[str, str] = {}
        self.stood_down = False


_state = _State()


def install(strict: bool | None = None, without: Collection[str] | None = None) -> None:
    """Switch the shim on. Twice is once; the second time may change what the arguments say.

    Args:
        strict: whether an option that is absent here is an error; None asks the environment.
        without: the names of fixes that are not to act; None asks the environment.

    Raises:
        CompatError: Triton is absent or has a shape that the shim does not know, or a name in `without` is
            no fix's.
    """
    with _lock:
        if without is not None and not NAMES.issuperset(without):
            unknown = ", ".join(sorted(set(without) - NAMES))
            raise CompatError(f"no fix is called {unknown}; there are: {_ALL_NAMES}")
        if active_shim() is None:
            strict = settings.strict_from_environment() if strict is None else strict
            _state.without = {} if without is not None else _disabled_from_environment()
        if without is not None:
            _state.without = dict.fromkeys(without, "enable(without=…)")
        try:
            shim = _state.shim or Shim(generations.detect())
        except CompatError as error:
            _state.reason = str(error)
            raise
        chosen = _choose(shim)
        if chosen:
            _wrap_all(shim, chosen)
        if strict is not None:
            shim.strict = strict
        shim.fixes = frozenset(fix.name for fix in chosen)
        _state.shim = shim
        _state.reason = _why(shim)
        if settings.summary_from_environment():
            from triton_ascend_compat import tally

            tally.print_at_exit()


def _disabled_from_environment() -> dict[str, str]:
    variable = settings.DISABLE_VARIABLE
    names = settings.disabled_from_environment()
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        settings.logger().warning(
            "%s: no fix is called %s; there are: %s", variable, ", ".join(unknown), _ALL_NAMES
        )
    return dict.fromkeys(names, variable)


def _choose(shim: Shim) -> list[Fix]:
    """The fixes that are to act; notes of the others why not."""
    _state.off = {}
    for fix in FIXES:
        if fix.name in _state.without:
            _state.off[fix.name] = f"switched off by {_state.without[fix.name]}"
        elif fix.name not in shim.fixes:  # while a fix acts, the need for it cannot be seen
            reason = fix.unneeded(shim)
            if reason is not None:
                _state.off[fix.name] = f"not needed: {reason}"
    _state.stood_down = _state.off.get(CONSTANTS, "").startswith("not needed")
    return [fix for fix in FIXES if fix.name not in _state.off]


def _why(shim: Shim) -> str:
    if CONSTANTS in shim.fixes:
        return f"switched on; {shim.generation.label}"
    others = [fix.name for fix in FIXES if fix.name in shim.fixes]
    return _state.off[CONSTANTS] + (f"; other fixes are on: {', '.join(others)}" if others else "")


def uninstall() -> list[str]:
    """Switch the shim off and put back what was there; returns the names of the attributes where somebody
    else has wrapped on top: there our wrapper stays, inert."""
    with _lock:
        _state.reason = "switched off"
        if _state.shim is None:
            return []
        _state.shim.fixes = frozenset()
        _state.off = {}
        _disarm()
        buried = [entry for entry in reversed(_state.ledger) if not entry.undo()]
        _state.ledger = list(reversed(buried))
        if not buried:
            _state.shim = None
        left = [entry.label for entry in buried]
        if left:
            _state.reason += f"; wrapped by others since, so left in place and inert: {', '.join(left)}"
            settings.logger().warning("%s", _state.reason)
        return left


def install_automatically() -> None:
    """Switch the shim on from the start-up path: whatever is wrong becomes one line of log."""
    try:
        install()
    except Exception as error:
        try:
            settings.logger().warning("stays out of this Triton: %s", error)
        except Exception:  # nothing here may stop Triton's import, not even a broken logging set-up
            return


def _wrap_all(shim: Shim, fixes: list[Fix]) -> None:
    """Wrap every attribute of the fixes, or none: what was wrapped before a failure is taken off again."""
    shim.cover = _wrap
    before = list(_state.ledger)
    try:
        for fix in fixes:
            for owner, name, make_wrapper in fix.wrappings(shim):
                _wrap(owner, name, make_wrapper)
            _wrap_late(shim, fix)
    except BaseException:
        _disarm()
        for entry in reversed(_state.ledger[len(before) :]):
            entry.undo()
        _state.ledger = before
        raise


def _wrap_late(shim: Shim, fix: Fix) -> None:
    """Wrap what `fix` wraps in the module that it awaits, now or as soon as Triton imports it."""
    if fix.awaits and fix.awaits not in sys.modules:
        import_hook.arm(fix.awaits, lambda: _wrap_late(shim, fix))
        return
    for owner, name, make_wrapper in fix.late_wrappings(shim):
        _wrap(owner, name, make_wrapper)


def _disarm() -> None:
    for fix in FIXES:
        if fix.awaits:
            import_hook.disarm(fix.awaits)


def _wrap(owner: Any, name: str, make_wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wrap `owner.name` unless a wrapper of ours is there already, perhaps under somebody else's."""
    with _lock:
        if any(entry.owner is owner and entry.name == name for entry in _state.ledger):
            return
        _state.ledger.append(Hook(owner, name, make_wrapper))


def active_shim() -> Shim | None:
    """The shim that is on in this process; None where none is."""
    return _state.shim if _state.shim is not None and _state.shim.on else None


def why_off(name: str) -> str | None:
    """Why the fix called `name` does not act; None where it does."""
    if name in _state.off:
        return _state.off[name]
    shim = active_shim()
    return None if shim is not None and name in shim.fixes else "the shim is not switched on"


def stood_down() -> bool:
    """Whether the installed Triton was found to deliver leaked options itself."""
    return _state.stood_down


def never_asked() -> bool:
    """Whether nothing has tried to switch the shim on or off in this process."""
    return not _state.reason


def reason() -> str:
    """Why the shim is on or off, in one sentence; empty where nothing has tried to switch it."""
    return _state.reason


def wrapped() -> tuple[str, ...]:
    """The attributes that hold a wrapper of ours, inert ones included."""
    return tuple(entry.label for entry in _state.ledger)
