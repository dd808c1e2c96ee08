"""What the fixes share: the state that their wrappers ask, what a fix is, how an attribute is replaced."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from typing import Any, Callable

from triton_ascend_compat.generations import Generation

#: The names of the fixes; `fixes` says what each is.
CONSTANTS = "constants"
LAUNCH = "launch"
RENAMES = "renames"
FOREIGN = "foreign"
CONFIG = "config"
INTERPRETER = "interpreter"
FOLDING = "folding"

Function = Callable[..., Any]

#: An attribute to wrap: its owner, its name, and what makes the wrapper of what stands there.
Wrapping = tuple[Any, str, Callable[[Function], Function]]


_MISSING = object()


class Hook:
    """One replaced attribute of a class, a module or an instance.

    Attributes:
        owner: whose attribute it is.
        name: the attribute's name.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(original)`; what was inherited is restored by deleting."""
        self.owner, self.name = owner, name
        self._own = vars(owner).get(name, _MISSING)
        self._installed = make(getattr(owner, name, None))
        setattr(owner, name, self._installed)

    @property
    def label(self) -> str:
        """`ASTSource.__init__`, for messages."""
        return f"{self.owner.__name__}.{self.name}"

    def undo(self) -> bool:
        """Put the original back, and tell whether that was done: a wrapper that someone else put over ours
        stays, and calls through us."""
        if vars(self.owner).get(self.name) is not self._installed:
            return False
        if self._own is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self._own)
        return True


class Shim:
    """The state that the wrappers of one process share.

    Attributes:
        generation: the shape of the Triton that is wrapped.
        fixes: the names of the fixes that act. Wrappers stay in place, inert, where others have wrapped on
            top of them.
        strict: whether an option that is absent here is an error rather than a warning.
        cover: wraps one more attribute, as the installer does: owner, name, what makes the wrapper.
    """

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.fixes: frozenset[str] = frozenset()
        self.strict = False
        self.cover: Callable[[Any, str, Function], None] = lambda *_: None

    @property
    def on(self) -> bool:
        """Whether any fix acts."""
        return bool(self.fixes)


class Fix:
    """One thing that the shim puts right, behind the one installer; it can be switched off by its name.

    Attributes:
        name: by which it is switched off.
        why: what goes wrong without it, on which releases.
        how: what it does about that.
        upstream: where the cause stands.
        until: when it can go.
        wrappings: what it wraps, asked when it is switched on.
        awaits: a module that Triton may import only when it needs it; empty where there is none.
        late_wrappings: what it wraps once that module has been imported.
        unneeded: why it is not needed on this Triton; None where it is.
    """

    def __init__(
        self,
        name: str,
        *,
        why: str,
        how: str,
        upstream: str,
        until: str,
        wrappings: Callable[[Shim], Iterable[Wrapping]] = lambda _: (),
        awaits: str = "",
        late_wrappings: Callable[[Shim], Iterable[Wrapping]] = lambda _: (),
        unneeded: Callable[[Shim], str | None] = lambda _: None,
    ) -> None:
        self.name = name
        self.why = why
        self.how = how
        self.upstream = upstream
        self.until = until
        self.wrappings = wrappings
        self.late_wrappings = late_wrappings
        self.awaits = awaits
        self.unneeded = unneeded


def deferred(shim: Shim, module: str, function: str) -> Callable[[Function], Function]:
    """What makes a wrapper by calling `function(shim, original)` of `module`, a module beside `fixes`, when
    the attribute is first called: most processes that import Triton never get that far."""

    def make_wrapper(original: Function) -> Function:
        made: Function | None = None

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            if made is None:
                made = getattr(importlib.import_module(module), function)(shim, original)
            return made(*args, **kwargs)

        return wrapper

    return make_wrapper
