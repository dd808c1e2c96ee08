"""TRITON_ALL_BLOCKS_PARALLEL is part of the cache key, and `auto_blockify_size` needs it: said once."""

from __future__ import annotations

import functools
from typing import Any, Callable

from triton_ascend_compat import backend_options, generations
from triton_ascend_compat.fixes.base import Fix, Wrapping, without_npu_backend
from triton_ascend_compat.shim import Shim


def _wrappings(shim: Shim) -> list[Wrapping]:
    backend_class = generations.npu_backend_class()
    is_on = generations.folding_reader(backend_class) if backend_class is not None else None
    if is_on is None:
        return []
    return [
        (backend_class, "hash", functools.partial(_wrap_hash, shim, is_on)),
        *backend_options.wrappings(shim),
    ]


def _wrap_hash(shim: Shim, is_on: Callable[[], bool], original: Callable[..., str]) -> Callable[..., str]:
    """`hash` of the npu backend, part of every kernel's cache key. It stays as it is while folding is off, so
    that nobody's cache is emptied."""

    @functools.wraps(original)
    def hash(backend: Any) -> str:
        key = original(backend)
        if (
            backend_options.FOLDING in shim.fixes
            and backend.target.backend == generations.NPU
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


def _unneeded(shim: Shim) -> str | None:
    backend_class = generations.npu_backend_class()
    if backend_class is not None and generations.folding_reader(backend_class) is None:
        return f"this backend does not read {generations.FOLDING_VARIABLE}"
    return without_npu_backend(shim)


FIX = Fix(
    backend_options.FOLDING,
    why="TRITON_ALL_BLOCKS_PARALLEL changes the binary but not its cache key (3.2.0, 3.2.1), so a shared "
    "cache hands out the other setting's binary; and without it auto_blockify_size > 1 silently does nothing",
    how="wraps the backend's hash: while the variable is on, the key says so; an option without effect is a "
    "warning, once",
    upstream="https://github.com/triton-lang/triton-ascend/blob/8763c3161/third_party/ascend/backend/compiler.py",
    until="the backend has the variable in its key, or retires it (it does nothing then)",
    wrappings=_wrappings,
    unneeded=_unneeded,
)
