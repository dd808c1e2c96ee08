"""Kernels of fla-core (flash-linear-attention), through its public operators; forward and backward.

On an Ascend target it chooses its own kernels for Ascend where it has them.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

import torch

BATCH, TOKENS, HEADS, KEY, VALUE = 1, 128, 2, 64, 64


def cases() -> dict[str, Callable[[], Any]]:
    """Name -> what launches the kernels of one operator."""
    return {
        f"fla/{name}": (lambda name=name, given=given: _run(name, given))
        for name, given in _ARGUMENTS.items()
    }


def _tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype).requires_grad_()


def _qkv() -> list[torch.Tensor]:
    return [_tensor(BATCH, TOKENS, HEADS, size) for size in (KEY, KEY, VALUE)]


def _gates(*last: int) -> torch.Tensor:
    return _tensor(BATCH, TOKENS, HEADS, *last, dtype=torch.float32)


def _run(name: str, arguments: Callable[[], Any]) -> None:
    operator = getattr(importlib.import_module("fla.ops"), name)
    positional, keywords = arguments()
    result = operator(*positional, **keywords)
    outputs = result if isinstance(result, tuple) else (result,)
    torch.autograd.backward(
        [each.sum() for each in outputs if isinstance(each, torch.Tensor) and each.requires_grad]
    )


_ARGUMENTS: dict[str, Callable[[], Any]] = {
    "chunk_linear_attn": lambda: (_qkv(), {}),
    "fused_recurrent_linear_attn": lambda: (_qkv(), {}),
    "chunk_retention": lambda: (_qkv(), {}),
    "fused_recurrent_retention": lambda: (_qkv(), {}),
    "parallel_retention": lambda: (_qkv(), {}),
    "chunk_simple_gla": lambda: (_qkv(), {"g": _gates()}),
    "fused_recurrent_simple_gla": lambda: (_qkv(), {"g": _gates()}),
    "parallel_simple_gla": lambda: (_qkv(), {"g": _gates()}),
    "chunk_gla": lambda: ([*_qkv(), _gates(KEY)], {}),
    "fused_recurrent_gla": lambda: ([*_qkv(), _gates(KEY)], {}),
    "chunk_lightning_attn": lambda: (_qkv(), {"layer_idx": 0, "num_layers": 2}),
    "chunk_delta_rule": lambda: ([*_qkv(), _tensor(BATCH, TOKENS, HEADS)], {}),
    "fused_recurrent_delta_rule": lambda: ([*_qkv(), _tensor(BATCH, TOKENS, HEADS)], {}),
    "chunk_gated_delta_rule": lambda: (_qkv(), {"g": _gates(), "beta": _tensor(BATCH, TOKENS, HEADS)}),
    "fused_recurrent_gated_delta_rule": lambda: (
        _qkv(),
        {"g": _gates(), "beta": _tensor(BATCH, TOKENS, HEADS)},
    ),
    "chunk_kda": lambda: (_qkv(), {"g": _gates(KEY), "beta": _tensor(BATCH, TOKENS, HEADS)}),
    "fused_recurrent_hgrn": lambda: ([_tensor(BATCH, TOKENS, 128), _tensor(BATCH, TOKENS, 128)], {}),
    "chunk_rwkv6": lambda: ([*_qkv(), _gates(KEY), _tensor(HEADS, KEY)], {}),
    "parallel_attn": lambda: (_qkv(), {}),
    "parallel_forgetting_attn": lambda: ([*_qkv(), _gates()], {}),
    "parallel_based": lambda: (
        [
            _tensor(BATCH, TOKENS, HEADS, 16),
            _tensor(BATCH, TOKENS, HEADS, 16),
            _tensor(BATCH, TOKENS, HEADS, VALUE),
        ],
        {},
    ),
}
