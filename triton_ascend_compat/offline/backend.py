"""What the offline mode changes in the installed Ascend backend.

The real stages run. The last one, which needs CANN, is replaced by the backend's own metadata parser with
the last text as the "binary"; or, with HIVM, it stays and finds stand-ins where it would need CANN. A marker
in the backend's hash keeps such kernels apart from those that an ordinary compile would look up.
"""

from __future__ import annotations

import os
from typing import Any, Callable

from triton_ascend_compat import generations

#: Part of every offline kernel's cache key; the number goes up when what an offline compile stores changes.
MARKER = "triton-ascend-compat-offline-2"

#: Environment variables that 3.2.0 builds its compilers' command lines from, and leaves out of its cache key.
_FLAG_VARIABLES = (
    "TRITON_ALL_BLOCKS_PARALLEL",
    "TRITON_DISABLE_LINE_INFO",
    "TRITON_ENABLE_SANITIZER",
    "ENABLE_PRINT_UB_BITS",
)

Stage = Callable[[Any, dict[str, Any]], Any]


class NoAscendBackend(RuntimeError):
    """The installed Triton has no backend for npu targets."""


def backend_class() -> type[Any]:
    """The compiler class that `triton.compile` uses for npu targets.

    Raises:
        NoAscendBackend: Triton cannot be imported, or has no such backend.
    """
    try:
        found = generations.npu_backend_class()
    except Exception as error:
        raise NoAscendBackend(f"triton cannot be imported here: {error}") from error
    if found is None:
        raise NoAscendBackend(
            "the installed Triton has no backend for npu targets: install triton-ascend, and not upstream "
            "triton beside it"
        )
    return found


def marker(mode: str) -> str:
    """What offline kernels of this mode have in their cache key, besides the backend's own hash."""
    flags = ",".join(os.environ.get(name, "") for name in _FLAG_VARIABLES)
    return f"{MARKER}-{mode}-{flags}"


def replace_binary_stage(backend: Any, stages: dict[str, Stage]) -> None:
    """Let the last stage keep its text, where `backend` would need CANN for it.

    A backend without triton-ascend's metadata parsers makes no CANN binary (the stand-in backends of
    tests): its stages stay as they are.
    """
    namespace = generations.backend_namespace(type(backend))
    last = backend.binary_ext
    if last not in stages:
        return
    from_linalg = namespace.get("_parse_linalg_metadata")
    from_ttir = namespace.get("_parse_ttir_metadata")
    if len(stages) == 2 and from_ttir is not None:
        # The SIMT-only mode has no linalg stage: TTIR goes to CANN as it is.
        def keep_ttir(module: Any, metadata: dict[str, Any]) -> bytes:
            text = str(module)
            from_ttir(text, metadata)
            return text.encode()

        stages[last] = keep_ttir
    elif from_linalg is not None:

        def keep_linalg(linalg: str, metadata: dict[str, Any]) -> bytes:
            text, _ = from_linalg(linalg, metadata)
            return str(text).encode()

        stages[last] = keep_linalg


def folds(backend_class: type[Any]) -> bool:
    """Whether kernels that are compiled now fold their blocks onto the physical cores: as the backend reads
    its variable, and always where it has retired that."""
    reader = generations.folding_reader(backend_class)
    return reader is None or bool(reader())
