"""An owner for `shim.Hook` where there is no object whose attributes could be replaced."""

from __future__ import annotations

from typing import Any


class Namespace:
    """A view whose attributes are the entries of a dict: the globals of a module that is not in
    `sys.modules` can be hooked like any other owner."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.__dict__ = entries
