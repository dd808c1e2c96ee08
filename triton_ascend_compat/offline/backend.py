"""What the offline mode changes in the installed Ascend backend.

The real TTIR and linalg stages run. The last stage, which needs CANN, is replaced by the backend's own
metadata parser, with the last text as the "binary". A marker in the backend's hash keeps such kernels
apart from those that an ordinary compile would look up.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

#: Part of every offline kernel's cache key; the number goes up when what an offline compile stores changes.
MARKER = "triton-ascend-compat-offline-1"

Stage = Callable[[Any, dict[str, Any]], Any]


class NoAscendBackend(RuntimeError):
    """The installed Triton has no backend for npu targets."""


def backend_class(chip: str) -> type[Any]:
    """The compiler class that `triton.compile` uses for `chip`.

    Asked from Triton's registry and not from an import path: triton-ascend 3.2.0 is loaded twice, and
    `triton.backends.ascend.compiler` is the copy that nothing compiles with.
    """
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("npu", chip, 0)
    found = [entry.compiler for entry in backends.values() if entry.compiler.supports_target(target)]
    if len(found) != 1:
        raise NoAscendBackend(
            f"the installed Triton has {len(found)} backends for npu targets, expected one: is triton-ascend "
            "installed, and not overwritten by upstream triton?"
        )
    cls = found[0]
    assert isinstance(cls, type)
    return cls


def replace_binary_stage(backend: Any, stages: dict[str, Stage]) -> None:
    """Let the last stage keep its text, where `backend` would need CANN for it.

    A backend without triton-ascend's metadata parsers makes no CANN binary (the stand-in backends of
    tests): its stages stay as they are.
    """
    namespace = inspect.unwrap(type(backend).add_stages).__globals__
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
