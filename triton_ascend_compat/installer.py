"""Installs the wrappers and takes them away: resolve all, wrap all, keep a ledger, set the flag last."""

from __future__ import annotations

import threading
from typing import Any, Callable

from triton_ascend_compat import _import_hook, generations, settings
from triton_ascend_compat.errors import CompatError
from triton_ascend_compat.source import SourceShim

#: Any option that every Ascend backend has had, to probe with.
_PROBE_OPTION = "num_warps"

_lock = threading.RLock()


class Entry:
    """One wrapped attribute: where it is, what stood there (None where it was inherited), what we put."""

    def __init__(
        self, owner: Any, name: str, original: Callable[..., Any] | None, wrapper: Callable[..., Any]
    ) -> None:
        self.owner = owner
        self.name = name
        self.original = original
        self.wrapper = wrapper

    @property
    def label(self) -> str:
        """`ASTSource.__init__`, for messages."""
        return f"{self.owner.__name__}.{self.name}"


class _State:
    """What is installed in this process. `reason` says in one sentence why it is on or off."""

    def __init__(self) -> None:
        self.shim: SourceShim | None = None
        self.ledger: list[Entry] = []
        self.reason = ""
        self.stood_down = False


_state = _State()


def install(strict: bool | None = None) -> None:
    """Switch the shim on. Twice is once.

    Args:
        strict: whether an option that is absent here is an error; None asks the environment.

    Raises:
        CompatError: Triton is absent or has a shape that the shim does not know.
    """
    with _lock:
        wanted = settings.strict_from_environment() if strict is None else strict
        if _state.shim is not None and _state.shim.on:
            if strict is not None:
                _state.shim.strict = strict
            return
        shim = _state.shim or _new_shim()
        if shim is None:
            return
        _wrap_all(shim)
        shim.strict = wanted
        shim.on = True
        _state.shim = shim
        _state.reason = f"switched on; {shim.generation.label}"


def _new_shim() -> SourceShim | None:
    """A shim for the imported Triton; None where that needs none."""
    try:
        generation = generations.detect()
    except CompatError as error:
        _state.reason = str(error)
        raise
    _state.stood_down = generations.delivers_leaked_options(generation, _PROBE_OPTION)
    if _state.stood_down:
        _state.reason = "not needed: this Triton delivers leaked options itself"
        return None
    return SourceShim(generation)


def uninstall() -> list[str]:
    """Switch the shim off and put back what was there; returns the names of the attributes where somebody
    else has wrapped on top: there our wrapper stays, inert."""
    with _lock:
        _state.reason = "switched off"
        if _state.shim is None:
            return []
        _state.shim.on = False
        _import_hook.disarm(generations.CODE_GENERATOR)
        buried = [entry for entry in reversed(_state.ledger) if not _take_off(entry)]
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


def _wrap_all(shim: SourceShim) -> None:
    """Wrap every attribute, or none: what was wrapped before a failure is taken off again."""
    source_class = shim.generation.source_class
    wanted: list[tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = [
        (source_class, "__init__", shim.wrap_init),
        (source_class, "parse_options", shim.wrap_parse_options),
        *((module, name, shim.wrap_async_key) for module, name in generations.async_key_bindings()),
    ]
    shim.cover = lambda subclass: _wrap(subclass, "parse_options", shim.wrap_parse_options)
    before = list(_state.ledger)
    try:
        for owner, name, make_wrapper in wanted:
            _wrap(owner, name, make_wrapper)
        _wrap_code_generator(shim)
    except BaseException:
        _import_hook.disarm(generations.CODE_GENERATOR)
        for entry in reversed(_state.ledger[len(before) :]):
            _take_off(entry)
        _state.ledger = before
        raise


def _wrap_code_generator(shim: SourceShim) -> None:
    """Wrap `ast_to_ttir` where it is bound, now or as soon as Triton imports it."""
    bindings = generations.ast_to_ttir_bindings()
    for module, name in bindings:
        _wrap(module, name, shim.wrap_ast_to_ttir)
    if not bindings:
        _import_hook.arm(generations.CODE_GENERATOR, lambda: _wrap_code_generator(shim))


def _wrap(owner: Any, name: str, make_wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wrap `owner.name` unless a wrapper of ours is there already, perhaps under somebody else's."""
    with _lock:
        if any(entry.owner is owner and entry.name == name for entry in _state.ledger):
            return
        wrapper = make_wrapper(getattr(owner, name))
        entry = Entry(owner, name, vars(owner).get(name), wrapper)
        setattr(owner, name, wrapper)
        _state.ledger.append(entry)


def _take_off(entry: Entry) -> bool:
    """Put back what `entry` replaced, unless somebody else's wrapper stands there now."""
    if vars(entry.owner).get(entry.name) is not entry.wrapper:
        return False
    if entry.original is None:
        delattr(entry.owner, entry.name)
    else:
        setattr(entry.owner, entry.name, entry.original)
    return True


def active_shim() -> SourceShim | None:
    """The shim that is on in this process; None where none is."""
    return _state.shim if _state.shim is not None and _state.shim.on else None


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
