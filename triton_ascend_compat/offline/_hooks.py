"""Attributes replaced for a while, and put back without taking off what others put on top."""

from __future__ import annotations

from typing import Any, Callable

_MISSING = object()


class Hook:
    """One replaced attribute of a class, a module or an instance."""

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(original)`; what was inherited is restored by deleting."""
        self._owner, self._name = owner, name
        self._own = vars(owner).get(name, _MISSING)
        self._installed = make(getattr(owner, name, None))
        setattr(owner, name, self._installed)

    def undo(self) -> None:
        """Put the original back; a wrapper that someone else put over ours stays, and calls through us."""
        if vars(self._owner).get(self._name) is not self._installed:
            return
        if self._own is _MISSING:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._own)


class Namespace:
    """A view whose attributes are the entries of a dict: the globals of a module that is not in
    `sys.modules` can be hooked like any other owner."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.__dict__ = entries
