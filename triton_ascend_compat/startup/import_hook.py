"""Calls functions whenever a named module has been imported: for the first time, again after `sys.modules`
was cleared, or by a reload. An import that fails is tried again.

A hook is a finder on `sys.meta_path`, which is all that tells what is armed. It lets the other finders answer
and puts a loader of its own around theirs; once a module is executed, its `__spec__` is as ever.

No lock is held and nothing has to be cleaned up: a thread or an interrupt may come in between any two lines.
What is in progress is read from the stacks of the threads. A callback has had its turn when it has come to
its end; one that was interrupted, or that two threads reach at once, is called again.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import CodeType, FrameType, ModuleType
    from typing import Any, Callable

#: Modules that were executed to their end and whose import an interrupt in a callback then undid. To execute
#: them once more would do harm: the submodules that they have imported stay, and are not bound again.
_undone: dict[str, ModuleType] = {}


class Hook:
    """A callback that has its turn whenever the module `name` has been imported; `error` tells what it
    raised the last time; it is empty where the callback came to its end."""

    def __init__(self, name: str, callback: Callable[[], object]) -> None:
        self.name = name
        self.callback = callback
        self.error = ""
        self._served: object = None

    @property
    def fired(self) -> bool:
        """Whether the callback has had its turn for the module as it is imported now."""
        return self.name in sys.modules and self._served is _spec(self.name)

    def fire(self) -> None:
        """Call the callback; an exception is logged and kept, not raised."""
        name = self.name  # `_is_in_progress` looks for it
        served, error = _spec(name), ""
        try:
            self.callback()
        except Exception as caught:
            error = _tell(caught)
        self.error, self._served = error, served

    def catch_up(self) -> None:
        """Fire if the module came in unseen: by a finder in front of this one, or by an old loader, or its
        import had begun when the hook was armed."""
        spec = _spec(self.name)  # this passes by at each import of anything
        if spec is not None and spec is not self._served and not getattr(spec, "_initializing", False):
            codes = Hook.fire.__code__, _Loader.exec_module.__code__
            if not any(_is_in_progress(self.name, codes, top) for top in sys._current_frames().values()):
                self.fire()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        try:
            if fullname == self.name:
                return _find(fullname, path, target)
            self.catch_up()
        except Exception:  # nothing here may stop an import: the other finders are asked
            return None
        return None


def hooks(name: str) -> list[Hook]:
    """The hooks that are armed for a module, in the order of the calls."""
    return [hook for hook in reversed(sys.meta_path) if isinstance(hook, Hook) and hook.name == name]


def is_importing(name: str) -> bool:
    """Whether an import of the module is under way, in whichever thread."""
    return bool(getattr(_spec(name), "_initializing", False))


def arm(name: str, callback: Callable[[], object]) -> Hook:
    """Call `callback` whenever module `name` has been imported, and now if it has been; twice is once.

    Where it is being imported, the callback has its turn after that, at the next import of anything.
    """
    hook = next((hook for hook in hooks(name) if hook.callback == callback), None)
    if hook is None:
        hook = Hook(name, callback)
        sys.meta_path.insert(0, hook)
    hook.catch_up()
    return hook


def disarm(name: str, callback: Callable[[], object] | None = None) -> None:
    """Take away what was armed for `name`: this callback, or all."""
    gone = [hook for hook in hooks(name) if callback in (None, hook.callback)]
    # A new list: a thread that is walking the old one would skip a finder, and so miss a module.
    sys.meta_path = [finder for finder in sys.meta_path if finder not in gone]


def _find(name: str, path: Any, target: Any) -> ModuleSpec | None:
    if _is_in_progress(name, (_find.__code__,), sys._getframe(1)):
        return None  # this is one of the others; or one of them, as wrapt's, asks all again
    module = None if name in sys.modules else _undone.get(name)
    if module is not None and any(other.startswith(f"{name}.") for other in sys.modules):
        spec = module.__spec__
    else:
        module, finders = None, [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
    if spec is not None and hasattr(spec.loader, "exec_module"):
        spec.loader = _Loader(spec.loader, module)  # type: ignore[assignment]
    return spec


class _Loader:
    """Loads a module as `loader` does, unless it is `whole` already, and then fires the hooks."""

    def __init__(self, loader: Any, whole: ModuleType | None) -> None:
        self.loader = loader
        self.whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.whole or self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        name = module.__name__  # `_is_in_progress` looks for it
        module.__spec__.loader = module.__loader__ = self.loader
        if self.whole is None:
            _undone[name] = self.loader.exec_module(module) or module
        had: list[Hook] = []  # a callback may arm more
        while waiting := [hook for hook in hooks(name) if not (hook.fired or hook in had)]:
            had.append(waiting[0])
            waiting[0].fire()
        _undone.pop(name, None)


def _spec(name: str) -> object:
    """What a second import and a reload of the module change."""
    module = sys.modules.get(name)
    return getattr(module, "__spec__", None) or module


def _is_in_progress(name: str, codes: tuple[CodeType, ...], frame: FrameType | None) -> bool:
    """Whether `frame` or one of its callers runs one of `codes` for the module."""
    while frame is not None:
        if frame.f_code in codes and frame.f_locals.get("name") == name:
            return True
        frame = frame.f_back
    return False


def _tell(error: Exception) -> str:
    """Log what a callback raised, and return it in one line."""
    told = type(error).__name__
    try:
        told = " ".join(f"{told}: {error}".split())
        from triton_ascend_compat import settings

        settings.logger().warning("not active: %s", told)
    except Exception:  # nothing here may stop Triton's import, not even a broken logging set-up
        return told
    return told
