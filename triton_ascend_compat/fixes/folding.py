"""TRITON_ALL_BLOCKS_PARALLEL is part of the cache key, and `auto_blockify_size` needs it: said once."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

from triton_ascend_compat import generations, shim

WHY = (
    "TRITON_ALL_BLOCKS_PARALLEL changes the binary but not its cache key, in any release that reads it, so a "
    "shared cache hands out the other setting's binary; and without folding auto_blockify_size > 1 silently "
    "does nothing"
)
HOW = (
    "wraps the backend's hash: where the variable makes its reader answer otherwise than if it were unset, "
    "the key says so; an option without effect is a warning, once"
)
UPSTREAM = (
    "https://github.com/triton-lang/triton-ascend/blob/8763c3161/third_party/ascend/backend/compiler.py"
)
UNTIL = "the backend has the variable in its key, or ignores it"

_MARK = f"-{generations.FOLDING_VARIABLE}"


def wrap_hash(original: Callable[..., str]) -> Callable[..., str]:
    """`hash` of the npu backend, part of every kernel's cache key. It stays as it is where folding is as if
    the variable were unset, so that nobody's cache is emptied."""

    @functools.wraps(original)
    def hash(backend: Any) -> str:
        key = original(backend)
        if (
            generations.FOLDING_VARIABLE in os.environ  # cheap, and nearly always the end of it
            and "folding" in shim.switch.fixes
            and backend.target.backend == generations.NPU
            and not key.endswith(_MARK)
            and _deviates(type(backend))
        ):
            return key + _MARK
        return key

    return hash


def _deviates(backend_class: type) -> bool:
    """Whether the backend folds, or does not, because of the variable, and the key does not tell it."""
    is_on = generations.folding_reader(backend_class)
    if is_on is None or generations.folding_is_in_the_key(backend_class):
        return False
    return bool(is_on()) is not generations.folding_where_unset(is_on)


def wrap_parse_options(original: Callable[..., Any]) -> Callable[..., Any]:
    """`parse_options` of the npu backend: warn once of an `auto_blockify_size` that cannot have an effect."""

    @functools.wraps(original)
    def parse_options(backend: Any, *args: Any, **kwargs: Any) -> Any:
        options = original(backend, *args, **kwargs)
        size = getattr(options, "auto_blockify_size", 1)
        if "folding" in shim.switch.fixes and isinstance(size, int) and size > 1:
            _warn_if_off(type(backend), size)
        return options

    return parse_options


def _warn_if_off(backend_class: type, size: int) -> None:
    variable, is_on = generations.FOLDING_VARIABLE, generations.folding_reader(backend_class)
    if is_on is None or is_on():
        return
    from triton_ascend_compat.errors import IneffectiveOptionWarning
    from triton_ascend_compat.telling import tell

    tell.warn_once(
        variable,
        f"auto_blockify_size={size} arrives, but has no effect while {variable} is off: set {variable}=1",
        IneffectiveOptionWarning,
    )
