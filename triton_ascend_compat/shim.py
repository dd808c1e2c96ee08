"""What the wrappers of this process share: the switch that they ask, and how an attribute is replaced."""

from __future__ import annotations

import functools
import gc
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from triton_ascend_compat import generations

if TYPE_CHECKING:
    from triton_ascend_compat.decision.policy import Policy
    from triton_ascend_compat.generations import Generation

Function = Callable[..., Any]


class Switch:
    """What is switched on; never changed, only replaced by another, so that a wrapper, a thread or a forked
    child sees the old one or the new one.

    Args:
        asked: True where it was switched on, False where it was switched off, None where nobody has asked.
        fixes: the names of the fixes that act.
        strict: whether an option that is absent here is an error rather than a warning.
        without: the fixes and data that were switched off, and by what.
        off: why each fix that does not act does not.
        generation: the shape of the Triton that is wrapped; None where none is.
    """

    def __init__(
        self,
        asked: bool | None = None,
        fixes: frozenset[str] = frozenset(),
        strict: bool = False,
        without: Mapping[str, str] | None = None,
        off: Mapping[str, str] | None = None,
        generation: Generation | None = None,
    ) -> None:
        self.asked, self.fixes, self.strict = asked, fixes, strict
        self.without, self.off = without or {}, off or {}
        self.generation: Any = generation
        self._asked_of: tuple[Any, ...] = ()
        self._npu: type | None = None
        self._policies: dict[type, Policy | None] = {}

    def policy(self, backend_class: type | None = None) -> Policy | None:
        """What a decision is made by, for the backend of this class (None: the installed npu backend);
        None where there is none, or it tells no options."""
        if backend_class is None:
            registry = generations.backend_registry()
            if registry != self._asked_of:  # nearly always the same objects, which costs nothing to see
                self._asked_of, self._npu = registry, generations.npu_backend_class()
            backend_class = self._npu
        if backend_class is not None and backend_class not in self._policies:
            from triton_ascend_compat.decision import policy

            self._policies[backend_class] = policy.make(
                backend_class,
                self.fixes | ({"renames", "foreign"} - self.without.keys()),
                strict=self.strict,
                off=self.off,
                delivers_itself=self.generation is not None and self.generation.delivers_itself,
                config_drops_unknown=generations.config_drops_unknown(),
                release=generations.installed_release(),
            )
        return self._policies[backend_class] if backend_class is not None else None


#: The switch of this process.
switch = Switch()


@functools.cache
def deferred(module: str, function: str) -> Callable[[Function], Function]:
    """What makes a wrapper by calling `function(original)` of `module` when the attribute is first called:
    most processes that import Triton never get that far."""

    def make_wrapper(original: Function) -> Function:
        made: Function | None = None

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            if made is None:
                made = getattr(importlib.import_module(module), function)(original)
            return made(*args, **kwargs)

        return wrapper

    return make_wrapper


_MISSING = object()


class Hook:
    """One attribute of a class, a module or an instance that is to be replaced by `make(original)`. It may be
    written down before it is `put`, and undone whatever happened in between."""

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self.owner, self.name, self.make = owner, name, make
        self._own = vars(owner).get(name, _MISSING)
        self._installed = make(getattr(owner, name, None))

    def put(self) -> Hook:
        """Replace the attribute."""
        setattr(self.owner, self.name, self._installed)
        return self

    @property
    def label(self) -> str:
        """`ASTSource.__init__`, for messages."""
        return f"{self.owner.__name__}.{self.name}"

    @property
    def in_force(self) -> bool:
        """Whether a call of the attribute comes to us: it is ours, or what others put over it holds ours."""
        return _holds(getattr(self.owner, self.name, None), self._installed)

    def undo(self) -> bool:
        """Put the original back (what was inherited is restored by deleting), and tell whether nothing of
        ours is left: a wrapper that someone else put over ours stays, and calls through us."""
        if vars(self.owner).get(self.name, _MISSING) is not self._installed:
            return not self.in_force
        if self._own is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self._own)
        return True


def _holds(outer: Any, inner: Any) -> bool:
    """Whether the function `outer` is `inner` or a wrapper around it: looked for among what it refers to (its
    closure, its attributes), but not in the globals of its module, which hold everything."""
    seen: set[int] = set()
    layer = [outer]
    while layer and len(seen) < 2000:
        if any(each is inner for each in layer):
            return True
        seen.update(map(id, layer))
        layer = [
            each
            for holder in layer
            for each in gc.get_referents(holder)
            if each is not getattr(holder, "__globals__", None)
            and id(each) not in seen
            and not isinstance(each, (type, type(gc), str, int))
        ]
    return False
