"""`triton.language.extra.ascend` (triton-ascend 3.2.0) and `….cann` (later) as the same modules."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

_EXTRA = "triton.language.extra"
_NAMES = {"ascend", "cann"}


@contextlib.contextmanager
def both_names() -> Iterator[None]:
    """Give the Ascend modules their other name as well, inside the `with` block.

    A release without a module `extension` gets a stand-in for it, with the names that it has under
    `triton.language`, where they stood before. A release that has both names, or none, stays as it is.
    """
    extra = importlib.import_module(_EXTRA)
    own = {name for name in _NAMES if hasattr(extra, name)}
    with contextlib.ExitStack() as undo:
        if len(own) == 1:
            (name,), (other,) = own, _NAMES - own
            _provide_extension(undo, getattr(extra, name))
            _put(undo, vars(extra), other, getattr(extra, name))
            prefix = f"{_EXTRA}.{name}"
            for found in [found for found in sys.modules if f"{found}.".startswith(f"{prefix}.")]:
                _put(undo, sys.modules, f"{_EXTRA}.{other}{found[len(prefix) :]}", sys.modules[found])
        yield


def _provide_extension(undo: contextlib.ExitStack, package: types.ModuleType) -> None:
    name = f"{package.__name__}.extension"
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        module = types.ModuleType(name, "Stand-in: what this release has under triton.language.")
        language = vars(importlib.import_module("triton.language"))
        vars(module).update({key: value for key, value in language.items() if not key.startswith("_")})
        _put(undo, vars(package), "extension", module)
        _put(undo, sys.modules, name, module)


def _put(undo: contextlib.ExitStack, place: dict[str, Any], name: str, value: object) -> None:
    place[name] = value
    undo.callback(place.pop, name, None)
