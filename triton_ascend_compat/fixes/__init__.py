"""The fixes behind the one installer, in the order in which they are installed: why each is there, what it
does, where the cause stands, and when it can go.

This table is part of `import triton`; the code of a fix, in a module of its own, is loaded when something
first passes through what it wraps.
"""

from __future__ import annotations

from triton_ascend_compat import generations
from triton_ascend_compat.shim import (
    CONFIG,
    CONSTANTS,
    FOLDING,
    FOREIGN,
    INTERPRETER,
    LAUNCH,
    RENAMES,
    Fix,
    Shim,
    Wrapping,
    deferred,
)
from triton_ascend_compat.source import SourceWrappers

#: Why the fix of the constants stands down.
DELIVERED_BY_TRITON = "this Triton delivers leaked options itself"

_TRITON = "https://github.com/triton-lang/triton/blob/v3.2.0/python/triton"
_TRITON_ASCEND = "https://github.com/triton-lang/triton-ascend/blob"
_BACKEND = f"{_TRITON_ASCEND}/8763c3161/third_party/ascend/backend/compiler.py"


def _source(shim: Shim) -> list[Wrapping]:
    wrappers = SourceWrappers(shim)
    source_class = shim.generation.source_class
    return [
        (source_class, "__init__", wrappers.wrap_init),
        (source_class, "parse_options", wrappers.wrap_parse_options),
        *((module, name, wrappers.wrap_async_key) for module, name in generations.async_key_bindings()),
    ]


def _code_generator(shim: Shim) -> list[Wrapping]:
    wrap = SourceWrappers(shim).wrap_ast_to_ttir
    return [(module, name, wrap) for module, name in generations.ast_to_ttir_bindings()]


def _backend_options(shim: Shim) -> list[Wrapping]:
    """The one wrapper that `launch`, `renames`, `foreign` and `folding` share."""
    wrap = deferred(shim, f"{__name__}.parse_options", "wrap_parse_options")
    return [(generations.npu_backend_class(), "parse_options", wrap)]


def _folding(shim: Shim) -> list[Wrapping]:
    wrap = deferred(shim, f"{__name__}.folding", "wrap_hash")
    return [(generations.npu_backend_class(), "hash", wrap), *_backend_options(shim)]


def _config(shim: Shim) -> list[Wrapping]:
    return [(generations.config_class(), "__init__", deferred(shim, f"{__name__}.config", "wrap_init"))]


def _interpreter(shim: Shim) -> list[Wrapping]:
    executor = generations.grid_executor()
    wrap = deferred(shim, f"{__name__}.interpreter", "wrap_call")
    return [(executor, "__call__", wrap)] if executor is not None else []


def _delivered_by_triton(shim: Shim) -> str | None:
    return DELIVERED_BY_TRITON if generations.delivers_leaked_options(shim.generation) else None


def _no_npu_backend(_: Shim) -> str | None:
    return "no backend for target npu is installed" if generations.npu_backend_class() is None else None


def _no_folding(shim: Shim) -> str | None:
    backend_class = generations.npu_backend_class()
    if backend_class is not None and generations.folding_reader(backend_class) is None:
        return f"this backend does not read {generations.FOLDING_VARIABLE}"
    return _no_npu_backend(shim)


FIXES: tuple[Fix, ...] = (
    Fix(
        CONSTANTS,
        why="a frontend that merges an autotune config into a kernel's constants dies with "
        "ValueError: 'auto_blockify_size' is not in list, on every release",
        how="wraps ASTSource: options leave the constants and override the caller's",
        upstream=f"{_TRITON_ASCEND}/8763c3161/python/triton/compiler/compiler.py",
        until="no frontend in use leaks, or Triton delivers such keys itself (then it stands down)",
        wrappings=_source,
        awaits=generations.CODE_GENERATOR,
        late_wrappings=_code_generator,
        unneeded=_delivered_by_triton,
    ),
    Fix(
        LAUNCH,
        why="an option that this release does not have is a KeyError in a launch, which ends a whole "
        "autotune, and vanishes without a word in options=",
        how="wraps the backend's parse_options: the option is left out with one warning; an unknown name "
        "keeps Triton's error, with the nearest names added",
        upstream=f"{_TRITON}/runtime/jit.py",
        until="the oldest triton-ascend in use has all options that its kernels pass",
        wrappings=_backend_options,
        unneeded=_no_npu_backend,
    ),
    Fix(
        RENAMES,
        why="triton-ascend renamed options in 2026 (renames.json); a kernel knows one name, a release the "
        "other",
        how="the decision translates by the table, unless the backend does so itself; where both names are "
        "given and differ, an error names both",
        upstream=_BACKEND,
        until="the kernels in use know the names of every triton-ascend in use",
        wrappings=_backend_options,
        unneeded=_no_npu_backend,
    ),
    Fix(
        FOREIGN,
        why="kernels written for several backends pass waves_per_eu, maxnreg, grf_mode and the like",
        how="the decision leaves out what foreign.json and the user's TRITON_ASCEND_COMPAT_FOREIGN list",
        upstream=f"{_TRITON}/runtime/jit.py",
        until="the kernels in use ask each backend for its own options only",
        wrappings=_backend_options,
        unneeded=_no_npu_backend,
    ),
    Fix(
        CONFIG,
        why="Config(..., opt=v) drops most options without a word in triton-ascend 3.2.0, and is a "
        "TypeError on other releases",
        how="wraps Config.__init__: known options join the config's dict, and so the launch; where Config "
        "drops an unknown one, that is said once",
        upstream=f"{_TRITON_ASCEND}/ebf849866/triton_patch/python/triton_patch/runtime/autotuner.py",
        until="Config of every triton-ascend in use passes its keywords on",
        wrappings=_config,
        unneeded=_no_npu_backend,
    ),
    Fix(
        INTERPRETER,
        why="under TRITON_INTERPRET=1 every option but six is a TypeError: unexpected keyword argument",
        how="wraps GridExecutor.__call__ as soon as the interpreter is imported: options stay away from the "
        "kernel's function",
        upstream=f"{_TRITON}/runtime/interpreter.py",
        until="Triton's interpreter ignores the options that its compiler accepts",
        awaits=generations.INTERPRETER,
        late_wrappings=_interpreter,
        unneeded=_no_npu_backend,
    ),
    Fix(
        FOLDING,
        why="TRITON_ALL_BLOCKS_PARALLEL changes the binary but not its cache key (3.2.0, 3.2.1), so a shared "
        "cache hands out the other setting's binary; and without it auto_blockify_size > 1 silently does "
        "nothing",
        how="wraps the backend's hash: while the variable is on, the key says so; an option without effect "
        "is a warning, once",
        upstream=_BACKEND,
        until="the backend has the variable in its key, or retires it (it does nothing then)",
        wrappings=_folding,
        unneeded=_no_folding,
    ),
)

NAMES = frozenset(fix.name for fix in FIXES)
