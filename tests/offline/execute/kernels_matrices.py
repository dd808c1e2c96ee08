"""Kernels of models: matrix products, attention, norms, losses, optimizers, random numbers."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from tests.offline.execute.cases import BFloat16, Case, empty, integers, normal


@triton.jit
def product(a, b, o, N: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    n, m, k = tl.arange(0, N), tl.arange(0, M), tl.arange(0, K)
    x = tl.load(a + n[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * M + m[None, :])
    tl.store(o + n[:, None] * M + m[None, :], tl.dot(x, y))


@triton.jit
def tiled(a, b, o, n, m, k, N: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.program_id(0) * N + tl.arange(0, N), tl.program_id(1) * M + tl.arange(0, M)
    total = tl.zeros((N, M), tl.float32)
    for start in range(0, k, K):
        along = start + tl.arange(0, K)
        x = tl.load(
            a + rows[:, None] * k + along[None, :], (rows[:, None] < n) & (along[None, :] < k), other=0.0
        )
        y = tl.load(
            b + along[:, None] * m + columns[None, :],
            (along[:, None] < k) & (columns[None, :] < m),
            other=0.0,
        )
        total = tl.dot(x, y, total)
    tl.store(o + rows[:, None] * m + columns[None, :], total, (rows[:, None] < n) & (columns[None, :] < m))


@triton.jit
def matrix_vector(a, v, o, columns, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    x = tl.load(a + row * columns + c, c < columns, other=0.0)
    tl.store(o + row, tl.sum(x * tl.load(v + c, c < columns, other=0.0), 0))


@triton.jit
def softmax(a, o, columns, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    x = tl.load(a + row * columns + c, c < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(o + row * columns + c, e / tl.sum(e, 0), c < columns)


@triton.jit
def softmax_back(y, dy, dx, columns, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    p = tl.load(y + row * columns + c, c < columns, other=0.0)
    g = tl.load(dy + row * columns + c, c < columns, other=0.0)
    tl.store(dx + row * columns + c, p * (g - tl.sum(p * g, 0)), c < columns)


@triton.jit
def layer_norm(a, w, b, o, columns, eps, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    inside = c < columns
    x = tl.load(a + row * columns + c, inside, other=0.0)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + eps)
    y = centred * scale * tl.load(w + c, inside) + tl.load(b + c, inside)
    tl.store(o + row * columns + c, y, inside)


@triton.jit
def rms_norm(a, w, o, columns, eps, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    x = tl.load(a + row * columns + c, c < columns, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / columns + eps)
    tl.store(o + row * columns + c, x * scale * tl.load(w + c, c < columns), c < columns)


@triton.jit
def cross_entropy(logits, labels, o, columns, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    x = tl.load(logits + row * columns + c, c < columns, other=-float("inf"))
    top = tl.max(x, 0)
    right = tl.sum(tl.where(c == tl.load(labels + row), x, 0.0), 0)
    tl.store(o + row, tl.log(tl.sum(tl.exp(x - top), 0)) + top - right)


@triton.jit
def attention(q, k, v, o, n, scale, D: tl.constexpr, Q: tl.constexpr, K: tl.constexpr, causal: tl.constexpr):
    rows, d = tl.program_id(0) * Q + tl.arange(0, Q), tl.arange(0, D)
    x = tl.load(q + rows[:, None] * D + d[None, :])
    top = tl.full((Q,), -1e30, tl.float32)
    total = tl.zeros((Q,), tl.float32)
    result = tl.zeros((Q, D), tl.float32)
    for start in range(0, n, K):
        along = start + tl.arange(0, K)
        s = tl.dot(x, tl.trans(tl.load(k + along[:, None] * D + d[None, :]))) * scale
        if causal:
            s = tl.where(rows[:, None] >= along[None, :], s, -1e30)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(p, 1)
        result = result * shrink[:, None] + tl.dot(p, tl.load(v + along[:, None] * D + d[None, :]))
        top = higher
    tl.store(o + rows[:, None] * D + d[None, :], result / total[:, None])


@triton.jit
def rotary(x, cosine, sine, o, H: tl.constexpr):
    row, h = tl.program_id(0), tl.arange(0, H)
    a, b = tl.load(x + row * 2 * H + h), tl.load(x + row * 2 * H + H + h)
    c, s = tl.load(cosine + row * H + h), tl.load(sine + row * H + h)
    tl.store(o + row * 2 * H + h, a * c - b * s)
    tl.store(o + row * 2 * H + H + h, b * c + a * s)


@triton.jit
def swiglu(a, b, o, n, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    x = tl.load(a + i, i < n)
    tl.store(o + i, x * tl.sigmoid(x) * tl.load(b + i, i < n), i < n)


@triton.jit
def adam(p, g, m, v, n, rate, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    inside = i < n
    x, step = tl.load(p + i, inside), tl.load(g + i, inside)
    first = 0.9 * tl.load(m + i, inside) + 0.1 * step
    second = 0.999 * tl.load(v + i, inside) + 0.001 * step * step
    tl.store(m + i, first, inside)
    tl.store(v + i, second, inside)
    tl.store(p + i, x - rate * first / (tl.sqrt(second) + 1e-8), inside)


@triton.jit
def quantized(a, o, scales, columns, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    x = tl.load(a + row * columns + c, c < columns, other=0.0)
    scale = tl.max(tl.abs(x), 0) / 127
    tl.store(scales + row, scale)
    q = x / scale
    q = tl.where(q < 0, q - 0.5, q + 0.5)
    tl.store(o + row * columns + c, q.to(tl.int8), c < columns)


@triton.jit
def dropped(a, o, seed, n, rate, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    keep = tl.rand(seed, i) > rate
    tl.store(o + i, tl.where(keep, tl.load(a + i, i < n), 0.0), i < n)


@triton.jit
def gathered_rows(experts, weights, o, columns, T: tl.constexpr, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    total = tl.zeros((C,), tl.float32)
    for t in range(T):
        expert = tl.load(experts + row * T + t)
        total += tl.load(weights + expert * columns + c, c < columns, other=0.0)
    tl.store(o + row * columns + c, total, c < columns)


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _norm(a: np.ndarray, w: np.ndarray, b: np.ndarray, eps: float) -> np.ndarray:
    centred = a - a.mean(1, keepdims=True)
    return centred / np.sqrt(a.var(1, keepdims=True) + eps) * w + b


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    s = q @ k.T * scale
    return _softmax(np.where(np.tri(len(q), dtype=bool), s, -1e30) if causal else s) @ v


def _mulhi(a: np.ndarray, b: int) -> np.ndarray:
    """The high half of a product as triton-ascend 3.2.0 has it: of signed numbers (see its miscompiles)."""
    wide = a.view(np.int32).astype(np.int64) * np.uint32(b).view(np.int32).astype(np.int64)
    return (wide >> 32).astype(np.uint32)


def _philox(seed: int, counters: np.ndarray) -> np.ndarray:
    c = [counters.astype(np.uint32), *(np.zeros(len(counters), np.uint32) for _ in range(3))]
    k0, k1 = seed, 0
    for _ in range(10):
        high_b, high_a = _mulhi(c[2], 0xCD9E8D57), _mulhi(c[0], 0xD2511F53)
        low_b, low_a = c[2] * np.uint32(0xCD9E8D57), c[0] * np.uint32(0xD2511F53)
        c = [high_b ^ c[1] ^ np.uint32(k0), low_b, high_a ^ c[3] ^ np.uint32(k1), low_a]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    x = c[0].view(np.int32).astype(np.int64)
    return np.where(x < 0, -x - 1, x).astype(np.float32) * np.float32(4.6566127342e-10)


def _wide_rms(a: np.ndarray, w: np.ndarray, eps: float) -> np.ndarray:
    wide = a.astype(np.float32)
    return wide / np.sqrt((wide * wide).mean(1, keepdims=True) + eps) * w


def _quantized(a: np.ndarray) -> dict[str, np.ndarray]:
    scale = np.abs(a).max(1) / np.float32(127)
    q = a / scale[:, None]
    return {"scales": scale, "o": np.trunc(np.where(q < 0, q - 0.5, q + 0.5)).astype(np.int8)}


def _adam(p, g, m, v, rate):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return {"m": m, "v": v, "p": p - rate * m / (np.sqrt(v) + 1e-8)}


def _product(name, make, out, tolerance):
    return Case(
        *(product, (1,)),
        {"a": make(normal(16, 32)), "b": make(normal(32, 16)), "o": out, "N": 16, "M": 16, "K": 32},
        lambda a, b, **_: {"o": a.astype(np.float32) @ b.astype(np.float32)},
        tolerance=tolerance,
        name=f"product_{name}",
    )


ROW = {"columns": 100, "C": 128}

CASES = [
    _product("fp32", lambda x: x, empty(16, 16), 1e-4),
    _product("fp16", lambda x: x.astype(np.float16), empty(16, 16), 1e-4),
    _product("bf16", BFloat16, empty(16, 16), 1e-4),
    Case(
        *(product, (1,)),
        {"a": integers(16, 32, dtype=np.int8), "b": integers(32, 16, dtype=np.int8)}
        | {"o": empty(16, 16, dtype=np.int32), "N": 16, "M": 16, "K": 32},
        lambda a, b, **_: {"o": a.astype(np.int32) @ b.astype(np.int32)},
        name="product_int8",
    ),
    Case(
        *(tiled, (2, 3)),
        {"a": normal(50, 70), "b": normal(70, 80), "o": empty(50, 80), "n": 50, "m": 80, "k": 70}
        | {"N": 32, "M": 32, "K": 32},
        lambda a, b, **_: {"o": a @ b},
        tolerance=1e-4,
    ),
    Case(
        *(matrix_vector, (20,), {"a": normal(20, 100), "v": normal(100), "o": empty(20), **ROW}),
        lambda a, v, **_: {"o": a @ v},
        tolerance=1e-4,
    ),
    Case(
        *(softmax, (9,), {"a": normal(9, 100), "o": empty(9, 100), **ROW}), lambda a, **_: {"o": _softmax(a)}
    ),
    Case(
        *(softmax_back, (9,)),
        {"y": _softmax(normal(9, 100)), "dy": normal(9, 100), "dx": empty(9, 100), **ROW},
        lambda y, dy, **_: {"dx": y * (dy - (y * dy).sum(1, keepdims=True))},
    ),
    Case(
        *(layer_norm, (9,)),
        {"a": normal(9, 100), "w": normal(100), "b": normal(100), "o": empty(9, 100), "eps": 1e-5, **ROW},
        lambda a, w, b, eps, **_: {"o": _norm(a, w, b, eps)},
        tolerance=1e-4,
    ),
    Case(
        *(rms_norm, (9,), {"a": normal(9, 100), "w": normal(100), "o": empty(9, 100), "eps": 1e-6, **ROW}),
        lambda a, w, eps, **_: {"o": a / np.sqrt((a * a).mean(1, keepdims=True) + eps) * w},
        tolerance=1e-4,
    ),
    Case(
        *(rms_norm, (9,)),
        {"a": normal(9, 100, dtype=np.float16), "w": normal(100, dtype=np.float16)}
        | {"o": empty(9, 100, dtype=np.float16), "eps": 1e-6, **ROW},
        lambda a, w, eps, **_: {"o": _wide_rms(a, w, eps)},
        tolerance=4e-3,
        name="rms_norm_fp16",
    ),
    Case(
        *(cross_entropy, (9,)),
        {"logits": normal(9, 100), "labels": integers(9, low=0, high=100), "o": empty(9), **ROW},
        lambda logits, labels, **_: {"o": -np.log(_softmax(logits)[np.arange(9), labels])},
        tolerance=1e-4,
    ),
    *(
        Case(
            *(attention, (4,)),
            {"q": normal(64, 16), "k": normal(64, 16), "v": normal(64, 16), "o": empty(64, 16)}
            | {"n": 64, "scale": 0.25, "D": 16, "Q": 16, "K": 32, "causal": causal},
            lambda q, k, v, scale, causal, **_: {"o": _attention(q, k, v, scale, causal)},
            tolerance=1e-4,
            name=f"attention{'_causal' if causal else ''}",
        )
        for causal in (False, True)
    ),
    Case(
        *(rotary, (5,)),
        {"x": normal(5, 32), "cosine": normal(5, 16), "sine": normal(5, 16), "o": empty(5, 32), "H": 16},
        lambda x, cosine, sine, **_: {
            "o": np.concatenate(
                [x[:, :16] * cosine - x[:, 16:] * sine, x[:, 16:] * cosine + x[:, :16] * sine], 1
            )
        },
    ),
    Case(
        *(swiglu, (4,), {"a": normal(200), "b": normal(200), "o": empty(200), "n": 200, "X": 64}),
        lambda a, b, **_: {"o": a / (1 + np.exp(-a)) * b},
    ),
    Case(
        *(adam, (4,)),
        {"p": normal(200), "g": normal(200), "m": normal(200), "v": np.abs(normal(200))}
        | {"n": 200, "rate": 0.01, "X": 64},
        lambda p, g, m, v, rate, **_: _adam(p, g, m, v, rate),
        tolerance=1e-4,
    ),
    Case(
        *(quantized, (6,)),
        {"a": normal(6, 100), "o": empty(6, 100, dtype=np.int8), "scales": empty(6), **ROW},
        lambda a, **_: _quantized(a),
    ),
    Case(
        *(dropped, (4,), {"a": normal(200), "o": empty(200), "seed": 11, "n": 200, "rate": 0.4, "X": 64}),
        lambda a, seed, rate, **_: {"o": np.where(_philox(seed, np.arange(200)) > rate, a, 0)},
    ),
    Case(
        *(gathered_rows, (4,)),
        {"experts": integers(4, 3, low=0, high=8), "weights": normal(8, 100), "o": empty(4, 100), "T": 3}
        | ROW,
        lambda experts, weights, **_: {"o": weights[experts].sum(1)},
    ),
]
