"""The fixes, one module each, behind the one installer: `FIXES`, in the order they are installed."""

from __future__ import annotations

from triton_ascend_compat.fixes import config, constants, folding, foreign, interpreter, launch, renames
from triton_ascend_compat.fixes.base import Fix

FIXES: tuple[Fix, ...] = (
    constants.FIX,
    launch.FIX,
    renames.FIX,
    foreign.FIX,
    config.FIX,
    interpreter.FIX,
    folding.FIX,
)

NAMES = frozenset(fix.name for fix in FIXES)
