"""Compile Triton kernels for Ascend on a machine without CANN and without an NPU."""

from __future__ import annotations

from triton_ascend_compat.offline.backend import NoAscendBackend
from triton_ascend_compat.offline.chips import CHIPS, DEFAULT_CHIP, UnknownChip
from triton_ascend_compat.offline.session import Session, current_session, offline

__all__ = [
    "CHIPS",
    "DEFAULT_CHIP",
    "NoAscendBackend",
    "Session",
    "UnknownChip",
    "current_session",
    "offline",
]
