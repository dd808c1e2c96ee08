"""Compile options among a kernel's constants are delivered as options."""

from __future__ import annotations

from triton_ascend_compat import generations
from triton_ascend_compat.fixes.base import Fix, Wrapping
from triton_ascend_compat.shim import Shim
from triton_ascend_compat.source import CONSTANTS, SourceWrappers

#: Why the fix stands down.
DELIVERED_BY_TRITON = "this Triton delivers leaked options itself"


def _wrappings(shim: Shim) -> list[Wrapping]:
    wrappers = SourceWrappers(shim)
    source_class = shim.generation.source_class
    return [
        (source_class, "__init__", wrappers.wrap_init),
        (source_class, "parse_options", wrappers.wrap_parse_options),
        *((module, name, wrappers.wrap_async_key) for module, name in generations.async_key_bindings()),
    ]


def _late_wrappings(shim: Shim) -> list[Wrapping]:
    wrap = SourceWrappers(shim).wrap_ast_to_ttir
    return [(module, name, wrap) for module, name in generations.ast_to_ttir_bindings()]


def _unneeded(shim: Shim) -> str | None:
    return DELIVERED_BY_TRITON if generations.delivers_leaked_options(shim.generation) else None


FIX = Fix(
    CONSTANTS,
    why="a frontend that merges an autotune config into a kernel's constants dies with "
    "ValueError: 'auto_blockify_size' is not in list, on every release",
    how="wraps ASTSource: options leave the constants and override the caller's",
    upstream="https://github.com/triton-lang/triton-ascend/blob/8763c3161/python/triton/compiler/compiler.py",
    until="no frontend in use leaks, or Triton delivers such keys itself (then it stands down)",
    wrappings=_wrappings,
    awaits=generations.CODE_GENERATOR,
    late_wrappings=_late_wrappings,
    unneeded=_unneeded,
)
