"""Elementwise kernels: masks, types, casts, integer arithmetic, mathematics, device functions."""

from __future__ import annotations

import math

import numpy as np
import triton
import triton.language as tl
from triton.language.extra.ascend import libdevice

from tests.offline.execute.cases import BFloat16, Case, empty, integers, normal, positive

N = 1000
erf = np.vectorize(math.erf)


@triton.jit
def add(a, b, o, n, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    tl.store(o + i, tl.load(a + i, i < n) + tl.load(b + i, i < n), i < n)


@triton.jit
def add_strided(a, o, n, stride, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    tl.store(o + i, tl.load(a + i * stride, i < n), i < n)


@triton.jit
def masked_other(a, o, n, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + i, i < n, other=-3.0))


@triton.jit
def mask_2d(a, o, rows, columns, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    inside = (r < rows) & (c < columns)
    tl.store(o + r * columns + c, 2 * tl.load(a + r * columns + c, inside, other=0.0), inside)


@triton.jit
def where(a, b, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(o + i, tl.where(x > y, x, -y))


@triton.jit
def clamp(a, o, low, high, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.minimum(tl.maximum(tl.load(a + i), low), high))


@triton.jit
def scaled(a, o, factor, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + i) * factor)


@triton.jit
def copied(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + i))


@triton.jit
def exp_log(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, tl.exp(x) + tl.log(x) + tl.exp2(x) + tl.log2(x))


@triton.jit
def roots(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, tl.sqrt(x) + tl.rsqrt(x))


@triton.jit
def waves(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, tl.sin(x) * tl.cos(x))


@triton.jit
def rounding(a, o, p, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, tl.floor(x))
    tl.store(p + i, tl.ceil(x))


@triton.jit
def gelu(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)))


@triton.jit
def silu(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, x * tl.sigmoid(x))


@triton.jit
def fused_multiply(a, b, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.fma(tl.load(a + i), tl.load(b + i), 1.0))


@triton.jit
def divided(a, b, o, p, X: tl.constexpr):
    i = tl.arange(0, X)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(o + i, x // y)
    tl.store(p + i, x % y)


@triton.jit
def bits(a, b, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(o + i, ((x & y) ^ (x | 5)) + ~x + (x << 3) + (x >> 2))


@triton.jit
def wide_product(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i).to(tl.int64)
    tl.store(o + i, x * x * 1000)


@triton.jit
def narrowed(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + i).to(tl.int8))


@triton.jit
def to_integer(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + i).to(tl.int32))


@triton.jit
def to_float(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + i).to(tl.float32) * 0.5)


@triton.jit
def compared(a, b, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + i) <= tl.load(b + i))


@triton.jit
def by_truth(a, t, o, flag, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.where(tl.load(t + i) != 0, tl.load(a + i), 0.0)
    if flag:
        x = -x
    tl.store(o + i, x)


@triton.jit
def rebits(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + i).to(tl.int32, bitcast=True))


@triton.jit
def library(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, libdevice.tan(x) + libdevice.log1p(x) + libdevice.atan(x) + libdevice.tanh(x))


@triton.jit
def library_more(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(
        o + i, libdevice.pow(x, x) + libdevice.relu(x - 1) + libdevice.reciprocal(x) + libdevice.round(x)
    )


@triton.jit
def library_exponents(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, libdevice.ilogb(x) + libdevice.ldexp(x, libdevice.ilogb(x)))


@triton.jit
def library_kinds(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    tl.store(o + i, libdevice.isnan(x).to(tl.int32) + 2 * libdevice.isinf(x).to(tl.int32))


@triton.jit
def library_powers(a, b, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, libdevice.pow(tl.load(a + i), tl.load(b + i)))


@triton.jit
def square_plus(x, y):
    return x * x + y


@triton.jit
def twice_square_plus(x, y):
    return square_plus(square_plus(x, y), y), x


@triton.jit
def device_functions(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    y, x = twice_square_plus(tl.load(a + i), 1.0)
    tl.store(o + i, y - x)


@triton.jit
def optional(a, b, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    if b is not None:
        x += tl.load(b + i)
    tl.store(o + i, x)


def _trunc_div(a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """As the hardware divides: towards zero; by zero, to the limit of the sign."""
    limits = np.iinfo(a.dtype)
    safe = np.where(b == 0, 1, b).astype(np.int64)
    quotient = np.trunc(a / safe).astype(np.int64)
    limit = np.where(a > 0, limits.max, np.where(a < 0, limits.min, 0))
    return {
        "o": np.where(b == 0, limit, quotient).astype(a.dtype),
        "p": np.where(b == 0, a, a - quotient * safe).astype(a.dtype),
    }


def _bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a & b) ^ (a | 5)) + ~a + (a << 3) + (a >> 2)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _unary(kernel, function, given=None, tolerance=1e-5, name=""):
    given = normal(128) if given is None else given
    return Case(
        *(kernel, (1,), {"a": given, "o": empty(128), "X": 128}, lambda a, **_: {"o": function(a)}),
        tolerance=tolerance,
        name=name,
    )


CASES = [
    Case(
        *(add, (16,), {"a": normal(N), "b": normal(N), "o": empty(N), "n": N, "X": 64}),
        lambda a, b, **_: {"o": a + b},
    ),
    Case(
        *(add, (16,)),
        {"a": normal(N, dtype=np.float16), "b": normal(N, dtype=np.float16), "o": empty(N, dtype=np.float16)}
        | {"n": N, "X": 64},
        lambda a, b, **_: {"o": a + b},
        name="add_fp16",
    ),
    Case(
        *(add, (16,)),
        {"a": BFloat16(normal(N)), "b": BFloat16(normal(N)), "o": BFloat16(empty(N)), "n": N, "X": 64},
        lambda a, b, **_: {"o": a + b},
        tolerance=8e-3,
        name="add_bf16",
    ),
    Case(
        *(add, (4,)),
        {"a": integers(N, dtype=np.int64), "b": integers(N, dtype=np.int64)}
        | {"o": empty(N, dtype=np.int64), "n": N, "X": 256},
        lambda a, b, **_: {"o": a + b},
        name="add_int64",
    ),
    Case(
        *(add_strided, (4,), {"a": normal(3 * N), "o": empty(N), "n": N, "stride": 3, "X": 256}),
        lambda a, **_: {"o": a[::3]},
    ),
    Case(
        *(masked_other, (1,), {"a": normal(100), "o": empty(128), "n": 100, "X": 128}),
        lambda a, **_: {"o": np.concatenate([a, np.full(28, -3.0)])},
    ),
    Case(
        *(
            mask_2d,
            (1,),
            {"a": normal(13, 27), "o": empty(13, 27), "rows": 13, "columns": 27, "R": 16, "C": 32},
        ),
        lambda a, **_: {"o": 2 * a},
        name="mask_2d",
    ),
    Case(
        *(where, (1,), {"a": normal(128), "b": normal(128), "o": empty(128), "X": 128}),
        lambda a, b, **_: {"o": np.where(a > b, a, -b)},
    ),
    Case(
        *(clamp, (1,), {"a": normal(128), "o": empty(128), "low": -0.5, "high": 0.25, "X": 128}),
        lambda a, **_: {"o": np.clip(a, -0.5, 0.25)},
    ),
    Case(
        *(scaled, (1,), {"a": normal(128), "o": empty(128), "factor": 0.1, "X": 128}),
        lambda a, **_: {"o": a * np.float32(0.1)},
    ),
    Case(
        *(scaled, (1,)),
        {"a": integers(128, dtype=np.int16), "o": empty(128, dtype=np.int16), "factor": 1, "X": 128},
        lambda a, **_: {"o": a},
        name="scaled_by_one",
    ),
    Case(
        *(copied, (1,), {"a": integers(128, dtype=np.int8), "o": empty(128, dtype=np.int8), "X": 128}),
        lambda a, **_: {"o": a},
        name="copied_int8",
    ),
    Case(
        *(copied, (1,), {"a": normal(128), "o": BFloat16(empty(128)), "X": 128}),
        lambda a, **_: {"o": BFloat16(a).values},
        tolerance=0,
        name="rounded_to_bf16",
    ),
    Case(
        *(copied, (1,), {"a": normal(128), "o": empty(128, dtype=np.float16), "X": 128}),
        lambda a, **_: {"o": a.astype(np.float16)},
        tolerance=0,
        name="rounded_to_fp16",
    ),
    _unary(exp_log, lambda a: np.exp(a) + np.log(a) + np.exp2(a) + np.log2(a), positive(128)),
    _unary(roots, lambda a: np.sqrt(a) + 1 / np.sqrt(a), positive(128)),
    _unary(waves, lambda a: np.sin(a) * np.cos(a)),
    Case(
        *(rounding, (1,), {"a": 9 * normal(128), "o": empty(128), "p": empty(128), "X": 128}),
        lambda a, **_: {"o": np.floor(a), "p": np.ceil(a)},
    ),
    _unary(gelu, lambda a: 0.5 * a * (1 + erf(a / 2**0.5))),
    _unary(silu, lambda a: a * _sigmoid(a)),
    Case(
        *(fused_multiply, (1,), {"a": normal(128), "b": normal(128), "o": empty(128), "X": 128}),
        lambda a, b, **_: {"o": a * b + 1},
    ),
    *(
        Case(
            *(divided, (1,)),
            {"a": integers(128, dtype=kind), "b": integers(128, low=-4, high=5, dtype=kind)}
            | {"o": empty(128, dtype=kind), "p": empty(128, dtype=kind), "X": 128},
            lambda a, b, **_: _trunc_div(a, b),
            name=f"divided_{np.dtype(kind).name}",
        )
        for kind in (np.int16, np.int32, np.int64)
    ),
    Case(
        *(divided, (1,)),
        {"a": np.full(128, -(2**31), np.int32), "b": np.full(128, -1, np.int32)}
        | {"o": empty(128, dtype=np.int32), "p": empty(128, dtype=np.int32), "X": 128},
        lambda **_: {"o": np.full(128, -(2**31), np.int32), "p": np.zeros(128, np.int32)},
        name="divided_lowest",
    ),
    Case(
        *(bits, (1,)),
        {"a": integers(128), "b": integers(128), "o": empty(128, dtype=np.int32), "X": 128},
        lambda a, b, **_: {"o": _bits(a, b)},
    ),
    Case(
        *(wide_product, (1,)),
        {"a": integers(128, low=-(2**20), high=2**20), "o": empty(128, dtype=np.int64), "X": 128},
        lambda a, **_: {"o": a.astype(np.int64) ** 2 * 1000},
    ),
    Case(
        *(narrowed, (1,)),
        {"a": integers(128, low=-1000, high=1000), "o": empty(128, dtype=np.int8), "X": 128},
        lambda a, **_: {"o": a.astype(np.int8)},
    ),
    Case(
        *(to_integer, (1,), {"a": 50 * normal(128), "o": empty(128, dtype=np.int32), "X": 128}),
        lambda a, **_: {"o": np.trunc(a).astype(np.int32)},
    ),
    Case(*(to_float, (1,), {"a": integers(128), "o": empty(128), "X": 128}), lambda a, **_: {"o": a * 0.5}),
    Case(
        *(compared, (1,)),
        {"a": integers(128, low=0, high=3), "b": integers(128, low=0, high=3)}
        | {"o": empty(128, dtype=np.bool_), "X": 128},
        lambda a, b, **_: {"o": a <= b},
    ),
    *(
        Case(
            *(by_truth, (1,)),
            {"a": normal(128), "t": integers(128, low=0, high=2, dtype=np.bool_), "o": empty(128)}
            | {"flag": flag, "X": 128},
            lambda a, t, flag, **_: {"o": np.where(t, -a if flag else a, 0)},
            name=f"by_truth_{flag}",
        )
        for flag in (True, False)
    ),
    Case(
        *(rebits, (1,), {"a": normal(128), "o": empty(128, dtype=np.int32), "X": 128}),
        lambda a, **_: {"o": a.view(np.int32)},
    ),
    _unary(library, lambda a: np.tan(a) + np.log1p(a) + np.arctan(a) + np.tanh(a), positive(128), 1e-4),
    _unary(
        *(library_more, lambda a: a**a + np.maximum(a - 1, 0) + 1 / a + np.floor(a + 0.5), positive(128)),
        tolerance=1e-4,
    ),
    _unary(
        library_exponents,
        lambda a: (
            np.floor(np.log2(a, dtype=np.float64)) * 1 + a * 2 ** np.floor(np.log2(a, dtype=np.float64))
        ),
        np.nextafter(2.0 ** np.arange(-64, 64), 0).astype(np.float32),
        name="library_exponents",
    ),
    *(
        Case(
            *(library_kinds, (1,)),
            {"a": np.tile(np.array([1, np.nan, np.inf, -np.inf, 0, -2, 6e4, 1e-7], kind), 16)}
            | {"o": empty(128, dtype=np.int32), "X": 128},
            lambda a, **_: {"o": np.isnan(a) + 2 * np.isinf(a)},
            name=f"library_kinds_{np.dtype(kind).name}",
        )
        for kind in (np.float32, np.float16)
    ),
    Case(
        *(library_powers, (1,)),
        {"a": integers(128, low=-5, high=6), "b": integers(128, low=0, high=9)}
        | {"o": empty(128, dtype=np.int32), "X": 128},
        lambda a, b, **_: {"o": a**b},
    ),
    _unary(device_functions, lambda a: (a * a + 1) ** 2 + 1 - a),
    *(
        Case(
            *(optional, (1,), {"a": normal(128), "b": other, "o": empty(128), "X": 128}),
            lambda a, b, **_: {"o": a if b is None else a + b},
            name=f"optional_{'absent' if other is None else 'given'}",
        )
        for other in (None, normal(128))
    ),
]
