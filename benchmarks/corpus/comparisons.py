"""Operators of public libraries with what they should compute: `computed_operators.py` runs both.

FLA's references are its own (its modules `naive`); FlagGems' are the ATen operators that it registers for;
Liger publishes none with its package, so they are written here with torch's own functions.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any, Callable

import torch
import torch.nn.functional as functional

TOKENS, HIDDEN, VOCABULARY = 32, 256, 512
BATCH, LENGTH, HEADS, SIZE = 1, 128, 2, 64


@dataclass(frozen=True)
class Case:
    """One operator: `run` and `reference` take the same inputs; floating ones are differentiated by."""

    name: str
    run: Callable[..., Any]
    reference: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]


def cases(library: str) -> list[Case]:
    """The operators of "liger", "fla" or "flag_gems"."""
    return {"liger": _liger, "fla": _fla, "flag_gems": _flag_gems}[library]()


def _liger() -> list[Case]:
    def hidden():
        return torch.randn(TOKENS, HIDDEN)

    def row():
        return torch.randn(HIDDEN)

    def logits():
        return torch.randn(TOKENS, VOCABULARY)

    def labels():
        return torch.randint(0, VOCABULARY, (TOKENS,))

    def log_probabilities():
        return logits().log_softmax(-1)

    def heads(n):
        return torch.randn(1, n, TOKENS, SIZE)

    def angles():
        return torch.randn(1, TOKENS, SIZE // 2).repeat(1, 1, 2)

    known: dict[str, tuple[str, Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
        "rms_norm": ("LigerRMSNormFunction", _rms_norm, lambda: (hidden(), row(), 1e-6)),
        "layer_norm": ("LigerLayerNormFunction", _layer_norm, lambda: (hidden(), row(), row(), 1e-6)),
        "group_norm": (
            "LigerGroupNormFunction",
            lambda x, w, b, channels, groups, eps: functional.group_norm(x, groups, w, b, eps),
            lambda: (torch.randn(2, 32, 64), torch.randn(32), torch.randn(32), 32, 4, 1e-6),
        ),
        "fused_add_rms_norm": (
            "LigerFusedAddRMSNormFunction",
            lambda x, r, w, eps: (_rms_norm(x + r, w, eps), x + r),
            lambda: (hidden(), hidden(), row(), 1e-6),
        ),
        "dyt": (
            "LigerDyTFunction",
            lambda x, alpha, gamma, beta: gamma * torch.tanh(alpha * x) + beta,
            lambda: (hidden(), torch.rand(1), row(), row()),
        ),
        "swiglu": (
            "LigerSiLUMulFunction",
            lambda a, b: functional.silu(a) * b,
            lambda: (hidden(), hidden()),
        ),
        "geglu": (
            "LigerGELUMulFunction",
            lambda a, b: functional.gelu(a, approximate="tanh") * b,
            lambda: (hidden(), hidden()),
        ),
        "relu_squared": (
            "LigerReLUSquaredFunction",
            lambda x: functional.relu(x).square(),
            lambda: (hidden(),),
        ),
        "softmax": ("LigerSoftmaxFunction", lambda x: x.softmax(-1), lambda: (logits(),)),
        "cross_entropy": (
            "LigerCrossEntropyFunction",
            lambda x, target, _: functional.cross_entropy(x, target),
            lambda: (logits(), labels(), None),
        ),
        "kl_div": (
            "LigerKLDivLossFunction",
            lambda x, y: functional.kl_div(x, y, reduction="batchmean"),
            lambda: (log_probabilities(), logits().softmax(-1)),
        ),
        "jsd": ("LigerJSDFunction", _jsd, lambda: (log_probabilities(), log_probabilities())),
        "tvd": (
            "LigerTVDLossFunction",
            lambda p, q: 0.5 * (p - q).abs().sum() / p.shape[0],
            lambda: (logits().softmax(-1), logits().softmax(-1)),
        ),
        "fused_linear_cross_entropy": (
            "LigerFusedLinearCrossEntropyFunction",
            lambda x, w, target: functional.cross_entropy(x @ w.T, target),
            lambda: (hidden(), torch.randn(VOCABULARY, HIDDEN) / 16, labels()),
        ),
        "rope": (
            "LigerRopeFunction",
            lambda q, k, cos, sin: tuple(x * cos + _half_turned(x) * sin for x in (q, k)),
            lambda: (heads(4), heads(2), angles(), angles()),
        ),
    }
    return [
        Case(f"{kind}: {name}", _applied(f"{package}.{name}", function), reference, inputs)
        for kind, package in (
            ("generic", "liger_kernel.ops"),
            ("Ascend", "liger_kernel.ops.backends._ascend.ops"),
        )
        for name, (function, reference, inputs) in known.items()
        if importlib.util.find_spec(f"{package}.{name}") is not None
    ]


def _applied(module: str, function: str) -> Callable[..., Any]:
    return lambda *inputs: getattr(importlib.import_module(module), function).apply(*inputs)


def _rms_norm(x: Any, weight: Any, eps: float) -> Any:
    return functional.rms_norm(x, (x.shape[-1],), weight, eps)


def _layer_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return functional.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def _jsd(x: Any, y: Any) -> Any:
    middle = torch.log(0.5 * (x.exp() + y.exp()))
    parts = (functional.kl_div(middle, z, reduction="batchmean", log_target=True) for z in (x, y))
    return 0.5 * sum(parts)


def _half_turned(x: Any) -> Any:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def _fla() -> list[Case]:
    def tensor(*last):
        return torch.randn(BATCH, LENGTH, HEADS, *last)

    def qkv():
        return (tensor(SIZE), functional.normalize(tensor(SIZE), dim=-1), tensor(SIZE))

    def gate(*last):
        return functional.logsigmoid(tensor(*last))

    def beta():
        return tensor().sigmoid()

    def swapped(naive):
        return lambda q, k, v, *rest: naive(*(x.transpose(1, 2) for x in (q, k, v, *rest)))

    def back(naive):
        return lambda *inputs: _first(swapped(naive)(*inputs)).transpose(1, 2)

    known: list[tuple[list[str], str, Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
        (
            ["chunk_linear_attn", "fused_recurrent_linear_attn"],
            "linear_attn.naive.naive_recurrent_linear_attn",
            lambda naive: naive,
            qkv,
        ),
        (
            ["chunk_retention", "fused_recurrent_retention", "parallel_retention"],
            "retention.naive.naive_retention",
            back,
            qkv,
        ),
        (
            ["chunk_simple_gla", "fused_recurrent_simple_gla", "parallel_simple_gla"],
            "simple_gla.naive.naive_recurrent_simple_gla",
            lambda naive: naive,
            lambda: (*qkv(), gate()),
        ),
        (
            ["chunk_gla", "fused_recurrent_gla"],
            "gla.naive.naive_recurrent_gla",
            lambda naive: naive,
            lambda: (*qkv(), gate(SIZE)),
        ),
        (
            ["chunk_delta_rule", "fused_recurrent_delta_rule"],
            "delta_rule.naive.delta_rule_recurrence",
            back,
            lambda: (*qkv(), beta()),
        ),
        (
            ["chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"],
            "gated_delta_rule.naive.naive_recurrent_gated_delta_rule",
            lambda naive: lambda q, k, v, g, beta: naive(q, k, v, beta, g),
            lambda: (*qkv(), gate(), beta()),
        ),
        (
            ["chunk_kda"],
            "kda.naive.naive_recurrent_kda",
            lambda naive: naive,
            lambda: (*qkv(), gate(SIZE), beta()),
        ),
        (
            ["fused_recurrent_hgrn"],
            "hgrn.naive.naive_recurrent_hgrn",
            lambda naive: naive,
            lambda: (torch.randn(BATCH, LENGTH, 128), functional.logsigmoid(torch.randn(BATCH, LENGTH, 128))),
        ),
        (["parallel_attn"], "attn.naive.naive_parallel_attn", lambda naive: naive, qkv),
        (
            ["parallel_forgetting_attn"],
            "forgetting_attn.naive.naive_forgetting_attn",
            lambda naive: naive,
            lambda: (*qkv(), gate()),
        ),
        (
            ["parallel_based"],
            "based.naive.naive_parallel_based",
            back,
            lambda: (tensor(16), tensor(16), tensor(SIZE)),
        ),
    ]
    return [
        Case(name, _operator(name), adapt(_found(f"fla.ops.{naive}")), inputs)
        for names, naive, adapt, inputs in known
        for name in names
    ]


def _operator(name: str) -> Callable[..., Any]:
    keywords = {
        "chunk_simple_gla": ("g",),
        "fused_recurrent_simple_gla": ("g",),
        "parallel_simple_gla": ("g",),
        "chunk_gated_delta_rule": ("g", "beta"),
        "fused_recurrent_gated_delta_rule": ("g", "beta"),
        "chunk_kda": ("g", "beta"),
        "parallel_forgetting_attn": ("g",),
    }.get(name, ())
    fixed = {"normalize": False} if name.endswith("linear_attn") else {}

    def run(*inputs: Any) -> Any:
        positional = inputs[: len(inputs) - len(keywords)]
        operator = getattr(importlib.import_module("fla.ops"), name)
        return _first(operator(*positional, **fixed, **dict(zip(keywords, inputs[len(positional) :]))))

    return run


def _found(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    return lambda *inputs: _first(getattr(importlib.import_module(module), name)(*inputs))


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _flag_gems() -> list[Case]:
    aten = torch.ops.aten

    def x():
        return torch.randn(64, 256)

    def square():
        return torch.randn(64, 64)

    def rows():
        return torch.randint(0, 64, (16,))

    known: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
        "add": (torch.add, lambda: (x(), x())),
        "mul": (torch.mul, lambda: (x(), 2.0)),
        "exp": (torch.exp, lambda: (x(),)),
        "gelu": (functional.gelu, lambda: (x(),)),
        "gelu_backward": (aten.gelu_backward, lambda: (x(), x())),
        "silu": (functional.silu, lambda: (x(),)),
        "silu_backward": (lambda g, x: aten.silu_backward(g.detach(), x.detach()), lambda: (x(), x())),
        "tanh": (torch.tanh, lambda: (x(),)),
        "tanh_backward": (aten.tanh_backward, lambda: (x(), x().tanh())),
        "rsqrt": (torch.rsqrt, lambda: (x().abs() + 0.1,)),
        "softmax": (torch.softmax, lambda: (x(), -1)),
        "log_softmax": (torch.log_softmax, lambda: (x(), -1)),
        "layer_norm": (
            lambda *inputs: functional.layer_norm(*inputs),
            lambda: (x(), [256], torch.randn(256), torch.randn(256)),
        ),
        "rms_norm": (functional.rms_norm, lambda: (x(), [256], torch.randn(256))),
        "sum_dim": (torch.sum, lambda: (x(), [1])),
        "mean_dim": (torch.mean, lambda: (x(), [1])),
        "amax": (torch.amax, lambda: (x(), [1])),
        "argmax": (torch.argmax, lambda: (x(), 1)),
        "cumsum": (torch.cumsum, lambda: (x(), 1)),
        "mm": (torch.mm, lambda: (square(), square())),
        "bmm": (torch.bmm, lambda: (square()[None], square()[None])),
        "addmm": (torch.addmm, lambda: (square(), square(), square())),
        "mv": (torch.mv, lambda: (square(), square()[0])),
        "embedding": (lambda w, i: functional.embedding(i, w), lambda: (x(), rows())),
        "index_select": (torch.index_select, lambda: (x(), 0, rows())),
        "triu": (torch.triu, lambda: (x(),)),
        "cat": (lambda a, b: torch.cat([a, b]), lambda: (x(), x())),
        "masked_fill": (torch.masked_fill, lambda: (x(), x() > 0, 1.0)),
        "topk": (torch.topk, lambda: (x(), 4)),
    }
    as_list = {"cat": lambda function: lambda *inputs: function(list(inputs))}
    return [
        Case(name, as_list.get(name, lambda f: f)(_gems(name)), reference, inputs)
        for name, (reference, inputs) in known.items()
    ]


def _gems(name: str) -> Callable[..., Any]:
    return lambda *inputs: getattr(importlib.import_module("flag_gems"), name)(*inputs)
