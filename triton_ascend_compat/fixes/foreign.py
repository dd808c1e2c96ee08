"""Options of other Triton backends are left out of an npu compile, and it is said whose they are."""

from __future__ import annotations

from triton_ascend_compat import backend_options
from triton_ascend_compat.fixes.base import Fix, without_npu_backend

FIX = Fix(
    backend_options.FOREIGN,
    why="kernels written for several backends pass waves_per_eu, maxnreg, grf_mode and the like",
    how="the decision leaves out what foreign.json and the user's TRITON_ASCEND_COMPAT_FOREIGN list",
    upstream="https://github.com/triton-lang/triton/blob/v3.2.0/python/triton/runtime/jit.py",
    until="the kernels in use ask each backend for its own options only",
    wrappings=backend_options.wrappings,
    unneeded=without_npu_backend,
)
