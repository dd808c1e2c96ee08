"""Launches and `triton.compile(options=…)` leave out an option that other releases have, and say so once."""

from __future__ import annotations

from triton_ascend_compat import backend_options
from triton_ascend_compat.fixes.base import Fix, without_npu_backend

FIX = Fix(
    backend_options.LAUNCH,
    why="an option that this release does not have is a KeyError in a launch, which ends a whole autotune, "
    "and vanishes without a word in options=",
    how="wraps the backend's parse_options: the option is left out with one warning; an unknown name keeps "
    "Triton's error, with the nearest names added",
    upstream="https://github.com/triton-lang/triton/blob/v3.2.0/python/triton/runtime/jit.py",
    until="the oldest triton-ascend in use has all options that its kernels pass",
    wrappings=backend_options.wrappings,
    unneeded=without_npu_backend,
)
