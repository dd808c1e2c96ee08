"""Methods replaced for a while, and put back without taking off what others put on top."""

from __future__ import annotations

import functools
from typing import Any, Callable

_MISSING = object()


class Hook:
    """One replaced attribute of a class or of a module's namespace."""

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(original)`; what was inherited is restored by deleting."""
        self._owner, self._name = owner, name
        self._own = vars(owner).get(name, _MISSING)
        self._installed = make(getattr(owner, name))
        setattr(owner, name, self._installed)

    def undo(self) -> None:
        """Put the original back; a wrapper that someone else put over ours stays, and calls through us."""
        if vars(self._owner).get(self._name) is not self._installed:
            return
        if self._own is _MISSING:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._own)


def wraps_if(active: Callable[[], bool], original: Any, wrapper: Any) -> Any:
    """`wrapper` while `active()`, else `original`: references that others keep become inert after undo."""

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        return (wrapper if active() else original)(*args, **kwargs)

    return method
