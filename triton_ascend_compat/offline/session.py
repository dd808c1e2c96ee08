"""The offline mode: which sessions are open, and what is installed while one is."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from triton_ascend_compat.offline import backend as _backend
from triton_ascend_compat.offline._hooks import Hook
from triton_ascend_compat.offline.chips import DEFAULT_CHIP, check_chip


class Session:
    """One offline session: the chip it compiles for."""

    def __init__(self, chip: str) -> None:
        from triton.backends.compiler import GPUTarget

        self.chip = chip
        self.target = GPUTarget("npu", chip, 0)


class _State:
    """The open sessions of this process.

    Hooks stand once per process, however many sessions are open, because tuners compile in threads of
    their own. A thread uses the session that it opened last, another thread the one opened last of all.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: list[Session] = []
        self.local = threading.local()
        self.hooks: list[Hook] = []

    def mine(self) -> list[Session]:
        stack: list[Session] = self.local.__dict__.setdefault("stack", [])
        return stack

    def current(self) -> Session | None:
        mine = self.mine()
        if mine:
            return mine[-1]
        try:
            return self.open[-1]
        except IndexError:
            return None


_state = _State()


def current_session() -> Session | None:
    """The session that a compile on this thread belongs to, or None outside of the offline mode."""
    return _state.current()


@contextlib.contextmanager
def offline(arch: str = DEFAULT_CHIP) -> Iterator[Session]:
    """Compile for Ascend without CANN and without an NPU, inside the `with` block.

    `arch` is a chip name (see `chips.CHIPS`). `triton.compile(src, target=session.target, options=…)`
    runs to its end: TTIR and linalg text come from the real compiler, `metadata` holds every option, and
    the "binary" is text. Such kernels cannot be launched, and no ordinary compile finds them in a cache.

    The mode holds for the whole process, other threads included. Blocks nest, also across threads, and
    the innermost one counts. Raises `UnknownChip` (a ValueError) or `NoAscendBackend` (a RuntimeError).
    """
    check_chip(arch)
    cls = _backend.backend_class(arch)
    session = Session(arch)
    with _state.lock:
        if not _state.open:
            _install(cls)
        _state.open.append(session)
    _state.mine().append(session)
    try:
        yield session
    finally:
        _state.mine().remove(session)
        with _state.lock:
            _state.open.remove(session)
            if not _state.open:
                _uninstall()


def _install(cls: type[Any]) -> None:
    hooks: list[Hook] = []
    try:
        hooks.append(Hook(cls, "hash", _wrap_hash))
        hooks.append(Hook(cls, "add_stages", _wrap_add_stages))
    except BaseException:
        for hook in reversed(hooks):
            hook.undo()
        raise
    _state.hooks = hooks


def _uninstall() -> None:
    while _state.hooks:
        _state.hooks.pop().undo()


def _is_offline(backend: Any) -> bool:
    return _state.current() is not None and backend.target.backend == "npu"


def _wrap_hash(original: Any) -> Any:
    @functools.wraps(original)
    def hash(self: Any) -> Any:
        key = original(self)
        return f"{_backend.MARKER}-{key}" if _is_offline(self) else key

    return hash


def _wrap_add_stages(original: Any) -> Any:
    @functools.wraps(original)
    def add_stages(self: Any, stages: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        result = original(self, stages, *args, **kwargs)
        if _is_offline(self):
            _backend.replace_binary_stage(self, stages)
        return result

    return add_stages
