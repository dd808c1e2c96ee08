"""Compile Triton kernels for Ascend on a machine without CANN and without an NPU."""

from __future__ import annotations

import sys
import types
from contextlib import AbstractContextManager
from typing import Any

from triton_ascend_compat.offline.backend import NoAscendBackend
from triton_ascend_compat.offline.chips import DEFAULT_CHIP, Chip, UnknownChip
from triton_ascend_compat.offline.driver import Pointer
from triton_ascend_compat.offline.hivm import HivmUnavailable
from triton_ascend_compat.offline.records import CompileRecord, Memory, Overflow, StageTime
from triton_ascend_compat.offline.session import Session, current_session, default_cache, offline

__all__ = [
    "DEFAULT_CHIP",
    "Chip",
    "CompileRecord",
    "HivmUnavailable",
    "Memory",
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


class _ContextManager(types.ModuleType):
    """This package, which as `triton_ascend_compat.offline` is the context manager, too."""

    def __call__(self, *args: Any, **kwargs: Any) -> AbstractContextManager[Session]:
        return offline(*args, **kwargs)


sys.modules[__name__].__class__ = _ContextManager
