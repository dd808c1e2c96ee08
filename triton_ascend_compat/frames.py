"""Whoever calls: which kernel, which target and which launch a method of Triton is serving.

No argument carries these to `ASTSource.parse_options` and to a backend's `parse_options`, and a method is all
that references taken before activation share; but the callers keep them in local variables.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

#: How far up the caller that knows may stand: compile -> make_ir -> ast_to_ttir, with room for one wrapper of
#: somebody else's in each gap.
_FRAMES_TO_LOOK_AT = 6


def target_and_options(frame: FrameType | None) -> tuple[Any, Mapping[str, Any]]:
    """The target (a GPUTarget) that the nearest caller, from `frame` up, compiles for, and the options it was
    given; None and an empty mapping where no caller shows a target.

    Whoever asks a source for its options has just made a backend for the target: Triton's `compile` in every
    generation, torch_npu's and triton-runner's copies of it, all keep them in `backend` and `target`.
    """
    for _ in range(_FRAMES_TO_LOOK_AT):
        if frame is None:
            break
        local_names = frame.f_locals
        if "backend" in local_names or "target" in local_names:
            for target in (getattr(local_names.get("backend"), "target", None), local_names.get("target")):
                if isinstance(getattr(target, "backend", None), str) and hasattr(target, "arch"):
                    options = local_names.get("options")
                    return target, options if isinstance(options, Mapping) else {}
        frame = frame.f_back
    return None, {}


def kernel_and_launch(frame: FrameType | None, opts: Any) -> tuple[Any, tuple[dict[str, Any], ...]]:
    """On whose behalf the code of `frame` calls `backend.parse_options(opts)`: the kernel (a JITFunction),
    None where no caller shows one; and, where a kernel is being launched, the dicts of keyword arguments in
    which the launch looks unknown names up afterwards.

    In every generation a launch parses its options only when its kernel is not in the in-memory cache:
    `JITFunction.run` (up to Triton 3.4) or `JITFunction._pack_args` passes its own `kwargs`, and then looks
    through them for names that are neither option nor parameter; Triton 3.2 looks through
    `excess_kwargs`, which its binder made of them. `compile` has the source in its local variable `src`.
    """
    for _ in range(_FRAMES_TO_LOOK_AT):
        if frame is None:
            break
        local_names = frame.f_locals
        if local_names.get("kwargs") is opts and hasattr(local_names.get("self"), "arg_names"):
            looked_up = (opts, local_names.get("excess_kwargs"))
            return local_names["self"], tuple(names for names in looked_up if isinstance(names, dict))
        fn = getattr(local_names.get("src"), "fn", None)
        if fn is not None:
            return fn, ()
        frame = frame.f_back
    return None, ()


def outside() -> tuple[int, str]:
    """The first caller outside Triton and this package: the `stacklevel` that `warnings.warn`, called by our
    caller, needs to point there, and its `file:line`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame):
        level, frame = level + 1, frame.f_back
    return level, f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_inside(frame: FrameType) -> bool:
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package in ("triton", __name__.partition(".")[0])
