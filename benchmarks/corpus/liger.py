"""Kernels of liger-kernel, through the autograd functions that its users call; forward and backward.

`ops` are the kernels for every device, `ascend` those that Liger keeps for Ascend.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

import torch

TOKENS, HIDDEN, VOCABULARY = 64, 1024, 4096

PACKAGES = {"ops": "liger_kernel.ops", "ascend": "liger_kernel.ops.backends._ascend.ops"}


def cases() -> dict[str, Callable[[], Any]]:
    """Name -> what launches the kernels of one operator."""
    return {
        f"liger/{kind}/{name}": (lambda run=run, package=package: run(package))
        for kind, package in PACKAGES.items()
        for name, run in _OPERATORS.items()
    }


def _tensor(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype).requires_grad_(dtype.is_floating_point)


def _hidden(dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return _tensor(TOKENS, HIDDEN, dtype=dtype)


def _logits() -> torch.Tensor:
    return _tensor(TOKENS, VOCABULARY)


def _labels() -> torch.Tensor:
    return torch.zeros(TOKENS, dtype=torch.int64)


def _both_ways(package: str, module: str, function: str, *arguments: Any) -> None:
    found = getattr(importlib.import_module(f"{package}.{module}"), function)
    result = found.apply(*arguments)
    outputs = [each for each in (result if isinstance(result, tuple) else (result,)) if each is not None]
    differentiable = [each for each in outputs if each.requires_grad]
    if differentiable:
        torch.autograd.backward([each.sum() for each in differentiable])


def _rope(package: str) -> None:
    q, k = _tensor(1, 8, TOKENS, 64), _tensor(1, 2, TOKENS, 64)
    cos, sin = torch.zeros(1, TOKENS, 64), torch.zeros(1, TOKENS, 64)
    _both_ways(package, "rope", "LigerRopeFunction", q, k, cos, sin)


def _mrope(package: str) -> None:
    q, k = _tensor(1, 8, TOKENS, 64), _tensor(1, 2, TOKENS, 64)
    cos, sin = torch.zeros(3, 1, TOKENS, 64), torch.zeros(3, 1, TOKENS, 64)
    _both_ways(package, "qwen2vl_mrope", "LigerQwen2VLMRopeFunction", q, k, cos, sin, [8, 12, 12])


def _group_norm(package: str) -> None:
    x = _tensor(4, 32, 128)
    _both_ways(package, "group_norm", "LigerGroupNormFunction", x, _tensor(32), _tensor(32), 32, 8, 1e-6)


_OPERATORS: dict[str, Callable[[str], None]] = {
    "rms_norm": lambda p: _both_ways(p, "rms_norm", "LigerRMSNormFunction", _hidden(), _tensor(HIDDEN), 1e-6),
    "layer_norm": lambda p: _both_ways(
        p, "layer_norm", "LigerLayerNormFunction", _hidden(), _tensor(HIDDEN), _tensor(HIDDEN), 1e-6
    ),
    "group_norm": _group_norm,
    "fused_add_rms_norm": lambda p: _both_ways(
        p, "fused_add_rms_norm", "LigerFusedAddRMSNormFunction", _hidden(), _hidden(), _tensor(HIDDEN), 1e-6
    ),
    "poly_norm": lambda p: _both_ways(
        p, "poly_norm", "LigerPolyNormFunction", _hidden(), _tensor(3), _tensor(), 1e-6
    ),
    "dyt": lambda p: _both_ways(
        p, "dyt", "LigerDyTFunction", _hidden(), _tensor(1), _tensor(HIDDEN), _tensor(HIDDEN)
    ),
    "swiglu": lambda p: _both_ways(p, "swiglu", "LigerSiLUMulFunction", _hidden(), _hidden()),
    "geglu": lambda p: _both_ways(p, "geglu", "LigerGELUMulFunction", _hidden(), _hidden()),
    "relu_squared": lambda p: _both_ways(p, "relu_squared", "LigerReLUSquaredFunction", _hidden()),
    "softmax": lambda p: _both_ways(p, "softmax", "LigerSoftmaxFunction", _logits()),
    "sparsemax": lambda p: _both_ways(p, "sparsemax", "LigerSparsemaxFunction", _logits(), -1),
    "cross_entropy": lambda p: _both_ways(
        p, "cross_entropy", "LigerCrossEntropyFunction", _logits(), _labels(), None
    ),
    "kl_div": lambda p: _both_ways(p, "kl_div", "LigerKLDivLossFunction", _logits(), _logits()),
    "jsd": lambda p: _both_ways(p, "jsd", "LigerJSDFunction", _logits(), _logits()),
    "tvd": lambda p: _both_ways(p, "tvd", "LigerTVDLossFunction", _logits(), _logits()),
    "fused_linear_cross_entropy": lambda p: _both_ways(
        p,
        "fused_linear_cross_entropy",
        "LigerFusedLinearCrossEntropyFunction",
        *(_hidden(), _tensor(VOCABULARY, HIDDEN), _labels()),
    ),
    "rope": _rope,
    "qwen2vl_mrope": _mrope,
    "llama4_rope": lambda p: _both_ways(
        p,
        "llama4_rope",
        "LigerLlama4RopeFunction",
        *(
            _tensor(1, TOKENS, 8, 64),
            _tensor(1, TOKENS, 2, 64),
            torch.zeros(TOKENS, 32, dtype=torch.complex64),
        ),
    ),
}
