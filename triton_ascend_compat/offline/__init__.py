"""Compile Triton kernels for Ascend on a machine without CANN and without an NPU."""

from __future__ import annotations

from triton_ascend_compat.offline.backend import NoAscendBackend
from triton_ascend_compat.offline.chips import CHIPS, DEFAULT_CHIP, Chip, UnknownChip
from triton_ascend_compat.offline.driver import Pointer
from triton_ascend_compat.offline.hivm import HivmUnavailable
from triton_ascend_compat.offline.records import CompileRecord, Overflow, StageTime
from triton_ascend_compat.offline.session import Session, current_session, default_cache, offline

__all__ = [
    "CHIPS",
    "DEFAULT_CHIP",
    "Chip",
    "CompileRecord",
    "HivmUnavailable",
    "NoAscendBackend",
    "Overflow",
    "Pointer",
    "Session",
    "StageTime",
    "UnknownChip",
    "current_session",
    "default_cache",
    "offline",
]
