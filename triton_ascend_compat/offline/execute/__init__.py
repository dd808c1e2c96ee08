"""Launches that compute: the compiler's own linalg, lowered to machine code and run over the grid.

The session asks for an `Executor`; the front doors read its `tally`. Nothing else knows of this room.
"""

from __future__ import annotations

from triton_ascend_compat.offline.execute.calling import (
    Executor,
    NotExecutedWarning,
    Tally,
    UnwrittenWarning,
    trial,
)
from triton_ascend_compat.offline.execute.guarding import ExecutionFault
from triton_ascend_compat.offline.execute.library import NotExecuted

__all__ = [
    "ExecutionFault",
    "Executor",
    "NotExecuted",
    "NotExecutedWarning",
    "Tally",
    "UnwrittenWarning",
    "trial",
]
