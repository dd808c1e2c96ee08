"""Kernels of flag-gems, through the functions that it registers for aten operators."""

from __future__ import annotations

import importlib
from typing import Any, Callable

import torch

ROWS, COLUMNS = 256, 1024


def cases() -> dict[str, Callable[[], Any]]:
    """Name -> what launches the kernels of one operator."""
    return {f"flag_gems/{name}": (lambda name=name: _run(name)) for name in _ARGUMENTS}


def _run(name: str) -> None:
    getattr(importlib.import_module("flag_gems"), name)(*_ARGUMENTS[name]())


def _matrix(dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.zeros(ROWS, COLUMNS, dtype=dtype)


def _square() -> torch.Tensor:
    return torch.zeros(ROWS, ROWS, dtype=torch.float16)


_ARGUMENTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "add": lambda: (_matrix(), _matrix()),
    "mul": lambda: (_matrix(), 2.0),
    "exp": lambda: (_matrix(),),
    "gelu": lambda: (_matrix(),),
    "silu": lambda: (_matrix(),),
    "tanh": lambda: (_matrix(),),
    "rsqrt": lambda: (_matrix(),),
    "softmax": lambda: (_matrix(), -1),
    "log_softmax": lambda: (_matrix(), -1),
    "layer_norm": lambda: (_matrix(), [COLUMNS], _matrix()[0], _matrix()[0]),
    "rms_norm": lambda: (_matrix(), [COLUMNS], _matrix()[0]),
    "sum_dim": lambda: (_matrix(), [1]),
    "mean_dim": lambda: (_matrix(), [1]),
    "amax": lambda: (_matrix(), [1]),
    "argmax": lambda: (_matrix(), 1),
    "cumsum": lambda: (_matrix(), 1),
    "mm": lambda: (_square(), _square()),
    "bmm": lambda: (_square()[None], _square()[None]),
    "addmm": lambda: (_square(), _square(), _square()),
    "mv": lambda: (_square(), _square()[0]),
    "embedding": lambda: (_matrix(), torch.zeros(16, dtype=torch.int64)),
    "index_select": lambda: (_matrix(), 0, torch.zeros(16, dtype=torch.int64)),
    "triu": lambda: (_matrix(),),
    "cat": lambda: ([_matrix(), _matrix()],),
    "masked_fill": lambda: (_matrix(), _matrix() > 0, 1.0),
    "topk": lambda: (_matrix(torch.float32), 4),
}
