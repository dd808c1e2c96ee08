"""TRITON_ALL_BLOCKS_PARALLEL is part of the cache key, and `auto_blockify_size` needs it: said once."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.shim import FOLDING, Shim


def wrap_hash(shim: Shim, original: Callable[..., str]) -> Callable[..., str]:
    """`hash` of the npu backend, part of every kernel's cache key. It stays as it is while folding is off, so
    that nobody's cache is emptied."""
    is_on = generations.folding_reader(generations.npu_backend_class())

    @functools.wraps(original)
    def hash(backend: Any) -> str:
        key = original(backend)
        if (
            generations.FOLDING_VARIABLE in os.environ  # cheap, and nearly always the end of it
            and FOLDING in shim.fixes
            and backend.target.backend == generations.NPU
            and is_on is not None
            and is_on()
            and not generations.folding_is_in_the_key(type(backend))
        ):
            return f"{key}-{generations.FOLDING_VARIABLE}"
        return key

    return hash


def warn_if_off(backend_class: type, options: Any) -> None:
    """Warn once where `options`, as parsed, have an `auto_blockify_size` that cannot have an effect."""
    size = getattr(options, "auto_blockify_size", 1)
    if not isinstance(size, int) or size <= 1:
        return
    is_on = generations.folding_reader(backend_class)
    if is_on is None or is_on():
        return
    from triton_ascend_compat import reporting
    from triton_ascend_compat.errors import IneffectiveOptionWarning

    reporting.warn_once(
        generations.FOLDING_VARIABLE,
        f"auto_blockify_size={size} is delivered, but has no effect while {generations.FOLDING_VARIABLE} is "
        f"off: set {generations.FOLDING_VARIABLE}=1",
        IneffectiveOptionWarning,
    )
