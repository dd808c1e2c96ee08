"""Calls functions whenever a named module has been imported: for the first time, again after `sys.modules`
was cleared, or by a reload.

A finder at the front of `sys.meta_path` lets the other finders answer and puts a loader of its own around the
one that they name; when the module is executed, `__spec__` and `__loader__` are as ever. A mere
`importlib.util.find_spec` runs nothing. An import that fails is tried again.

No lock is held and nothing has to be cleaned up: a thread or an interrupt may come in between any two lines.
What is in progress is read from the stacks of the threads. A callback has had its turn when it has come to
its end; one that was interrupted, or that two threads reach at once, is called again.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, FrameType, ModuleType
    from typing import Any, Callable

#: What is armed, in the order of the calls. Other threads walk it: it is changed in single steps.
hooks: list[Hook] = []

#: Modules that were executed to their end and whose import an interrupt in a callback then undid. To execute
#: them once more would do harm: the submodules that they have imported stay, and are not bound again.
_undone: dict[str, ModuleType] = {}


class Hook:
    """A function that is to be called whenever the module `name` has been imported."""

    def __init__(self, name: str, callback: Callable[[], object]) -> None:
        self.name = name
        self.callback = callback
        #: What the callback raised the last time; None where it came to its end.
        self.error: Exception | None = None
        self._served: object = None

    @property
    def fired(self) -> bool:
        """Whether the callback has had its turn for the module as it is imported now."""
        module = sys.modules.get(self.name)
        return module is not None and self._served is _identity(module)

    def fire(self) -> None:
        """Call the callback; an exception is logged and kept, not raised."""
        name = self.name  # `_is_in` looks for it
        served, error = _identity(sys.modules.get(name)), None
        try:
            self.callback()
        except Exception as caught:
            error = caught
            _log(caught)
        self.error, self._served = error, served

    def catch_up(self) -> None:
        """Fire if the module came in unseen: by a finder in front of ours, or an old loader, or because its
        import had begun when the hook was armed."""
        if self.name not in sys.modules or self.fired or is_importing(self.name):
            return
        codes = Hook.fire.__code__, _Loader.exec_module.__code__
        if not any(_is_in(frame, codes, "name", self.name) for frame in sys._current_frames().values()):
            self.fire()


def is_importing(name: str) -> bool:
    """Whether an import of the module is under way, in whichever thread."""
    return bool(getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False))


def arm(name: str, callback: Callable[[], object]) -> Hook:
    """Call `callback` whenever module `name` has been imported, and now if it has been; twice is once.

    Where it is being imported, the callback has its turn after that, at the next import of anything.
    """
    _place_finder()
    hook = next((hook for hook in hooks if (hook.name, hook.callback) == (name, callback)), None)
    if hook is None:
        hook = Hook(name, callback)
        hooks.append(hook)
        _place_finder()  # another thread may have disarmed the last hook meanwhile
    hook.catch_up()
    return hook


def disarm(name: str, callback: Callable[[], object] | None = None) -> None:
    """Take away what was armed for `name`: this callback, or all."""
    for hook in tuple(hooks):
        if hook.name == name and callback in (None, hook.callback) and hook in hooks:
            hooks.remove(hook)
    if not hooks:
        # A new list: taking an item out of the old one would make a thread that is walking it skip a
        # finder, and so miss a module that is there.
        sys.meta_path = [finder for finder in sys.meta_path if finder is not _finder]
    if hooks:  # another thread has armed one meanwhile
        _place_finder()


def _place_finder() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


class _Finder:
    """The finder for all hooks."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        try:
            return self._find(fullname, path, target)
        except (
            Exception
        ):  # nothing here may stop an import: the others are asked, and the module comes in unseen
            return None

    def _find(self, fullname: str, path: Any, target: Any) -> ModuleSpec | None:
        awaited = False
        for hook in tuple(hooks):
            if hook.name == fullname:
                awaited = True
            else:
                hook.catch_up()
        # Some finders, as wrapt's, ask all finders again.
        if not awaited or _is_in(sys._getframe(2), (_Finder._find.__code__,), "fullname", fullname):
            return None
        module = None if fullname in sys.modules else _undone.get(fullname)
        if module is not None and any(name.startswith(f"{fullname}.") for name in sys.modules):
            spec = module.__spec__
        else:
            module, finders = None, [finder for finder in sys.meta_path if finder is not self]
            answers = (f.find_spec(fullname, path, target) for f in finders if hasattr(f, "find_spec"))
            spec = next((answer for answer in answers if answer is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, module)  # type: ignore[assignment]
        return spec


_finder: Any = _Finder()


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
        name = module.__name__  # `_is_in` looks for it
        module.__spec__.loader = module.__loader__ = self.loader
        if self.whole is None:
            _undone[name] = self.loader.exec_module(module) or module
        _fire_all(name)


def _fire_all(name: str) -> None:
    for hook in tuple(hooks):
        if hook.name == name and not hook.fired:
            hook.fire()
    _undone.pop(name, None)


def _identity(module: Any) -> object:
    """What a second import and a reload change; it keeps no module alive."""
    return getattr(module, "__spec__", None) or module


def _is_in(frame: FrameType | None, codes: tuple[CodeType, ...], variable: str, value: str) -> bool:
    """Whether `frame` or one of its callers runs one of `codes`, with this value of a local variable."""
    while frame is not None:
        if frame.f_code in codes and frame.f_locals.get(variable) == value:
            return True
        frame = frame.f_back
    return False


def _log(error: Exception) -> None:
    try:
        from triton_ascend_compat import settings

        settings.logger().warning("not active: %s: %s", type(error).__name__, " ".join(str(error).split()))
        settings.logger().debug("where it failed", exc_info=error)
    except Exception:  # nothing here may stop Triton's import, not even a broken logging set-up
        return
