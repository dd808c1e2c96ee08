"""Calls a function once, right after a named module has been imported.

A finder at the front of `sys.meta_path` lets the other finders answer and puts an `exec_module` of its own
on the loader instance they return. The loader stays the same object, so `__spec__` and `__loader__` look
as ever, and a mere `importlib.util.find_spec` runs nothing. An import that fails leaves the hook armed for
the next try; a hook that fired is gone.
"""

from __future__ import annotations

import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable

#: Module name -> its hook, armed or fired.
hooks: dict[str, PostImportHook] = {}


class PostImportHook:
    """A `sys.meta_path` finder for one module name; see the module's docstring."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self.name = name
        self.callback = callback
        self.fired = False
        #: What the callback raised, if it did.
        self.error: BaseException | None = None
        self._searching: set[int] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if self.fired:
            return None
        if fullname != self.name:
            # A finder in front of this one, or a loader without a settable `exec_module`, brought the
            # module in unseen: catch up at the next import of anything.
            if self.is_imported():
                self.fire()
            return None
        thread = get_ident()
        if thread in self._searching:  # a finder that asks all finders again, as wrapt's does
            return None
        self._searching.add(thread)
        try:
            spec = self._ask_others(path, target)
        finally:
            self._searching.discard(thread)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader)
        return spec

    def _ask_others(self, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(self.name, path, target)
            if spec is not None:
                return spec
        return None

    def _watch(self, loader: Any) -> None:
        own = getattr(loader, "__dict__", {}).get("exec_module")
        if isinstance(own, _WatchedExecution) and own.hook is self:
            return  # a loader that is asked for several times, or serves several modules
        if hasattr(loader, "exec_module"):
            watched = _WatchedExecution(self, loader, own)
            try:
                loader.exec_module = watched
            except AttributeError:
                return

    def is_imported(self) -> bool:
        """Whether the module is in `sys.modules` and its import has come to its end."""
        module = sys.modules.get(self.name)
        return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)

    def fire(self) -> None:
        """Call the callback, once; what it raises is logged, not raised."""
        if self.fired:
            return
        self.fired = True
        self.remove()
        try:
            self.callback()
        except Exception as error:
            self.error = error
            import logging

            logger = logging.getLogger("triton_ascend_compat")
            logger.warning("not active: %s: %s", type(error).__name__, error)
            logger.debug("where it failed", exc_info=error)

    def remove(self) -> None:
        # A new list: taking an item out of the old one would make a thread that is walking it skip a
        # finder, and so miss a module that is there.
        sys.meta_path = [finder for finder in sys.meta_path if finder is not self]


class _WatchedExecution:
    """Stands in for `loader.exec_module` once: fires the hook after it, and the loader is as before."""

    def __init__(self, hook: PostImportHook, loader: Any, own: Any) -> None:
        self.hook = hook
        self.loader = loader
        self.execute = loader.exec_module
        #: What the loader instance itself, not its class, had under that name; None if nothing.
        self.own = own

    def __call__(self, module: ModuleType) -> None:
        if module.__name__ != self.hook.name:
            self.execute(module)
            return
        if self.own is None:
            self.loader.__dict__.pop("exec_module", None)
        else:
            self.loader.exec_module = self.own
        self.execute(module)
        self.hook.fire()


def arm(name: str, callback: Callable[[], None]) -> PostImportHook:
    """Call `callback` once module `name` has been imported, now if it has been; twice is once.

    After the hook has fired it is not armed again: what a callback installs, it keeps installed.
    """
    hook = hooks.get(name)
    if hook is None:
        hook = hooks[name] = PostImportHook(name, callback)
        if hook.is_imported():
            hook.fire()
        else:
            sys.meta_path.insert(0, hook)
    return hook


def disarm(name: str) -> None:
    """Take the hook for `name` away, as if it had never been armed."""
    hook = hooks.pop(name, None)
    if hook is not None:
        hook.remove()
