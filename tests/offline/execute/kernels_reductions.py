"""Reductions, scans, sorting, gathering and other kernels that move elements about."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from tests.offline.execute.cases import Case, empty, integers, normal

R, C = 8, 16


@triton.jit
def _load(a, R: tl.constexpr, C: tl.constexpr):
    return tl.load(a + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :])


@triton.jit
def _store(o, x, R: tl.constexpr, C: tl.constexpr):
    tl.store(o + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], x)


@triton.jit
def sum_rows(a, o, R: tl.constexpr, C: tl.constexpr):
    tl.store(o + tl.arange(0, R), tl.sum(_load(a, R, C), 1))


@triton.jit
def sum_columns(a, o, R: tl.constexpr, C: tl.constexpr):
    tl.store(o + tl.arange(0, C), tl.sum(_load(a, R, C), 0))


@triton.jit
def sum_all(a, o, X: tl.constexpr):
    tl.store(o, tl.sum(tl.load(a + tl.arange(0, X)), 0))


@triton.jit
def extremes(a, o, p, R: tl.constexpr, C: tl.constexpr):
    x = _load(a, R, C)
    tl.store(o + tl.arange(0, R), tl.max(x, 1))
    tl.store(p + tl.arange(0, R), tl.min(x, 1))


@triton.jit
def where_extreme(a, o, p, R: tl.constexpr, C: tl.constexpr):
    x = _load(a, R, C)
    tl.store(o + tl.arange(0, R), tl.argmax(x, 1))
    tl.store(p + tl.arange(0, R), tl.argmin(x, 1))


@triton.jit
def max_with_index(a, o, p, R: tl.constexpr, C: tl.constexpr):
    value, index = tl.max(_load(a, R, C), 0, return_indices=True)
    tl.store(o + tl.arange(0, C), value)
    tl.store(p + tl.arange(0, C), index)


@triton.jit
def xor_rows(a, o, R: tl.constexpr, C: tl.constexpr):
    tl.store(o + tl.arange(0, R), tl.xor_sum(_load(a, R, C), 1))


@triton.jit
def _product(x, y):
    return x * y


@triton.jit
def product_rows(a, o, R: tl.constexpr, C: tl.constexpr):
    tl.store(o + tl.arange(0, R), tl.reduce(_load(a, R, C), 1, _product))


@triton.jit
def _larger_magnitude(x, y):
    return tl.maximum(tl.abs(x), tl.abs(y))


@triton.jit
def by_magnitude(a, o, R: tl.constexpr, C: tl.constexpr):
    tl.store(o + tl.arange(0, R), tl.reduce(_load(a, R, C), 1, _larger_magnitude))


@triton.jit
def sum_in_steps(a, o, n, X: tl.constexpr):
    total = tl.zeros((X,), tl.float32)
    for start in range(0, n, X):
        i = start + tl.arange(0, X)
        total += tl.load(a + i, i < n, other=0.0)
    tl.store(o, tl.sum(total, 0))


@triton.jit
def variance(a, o, R: tl.constexpr, C: tl.constexpr):
    x = _load(a, R, C)
    centred = x - (tl.sum(x, 1) / C)[:, None]
    tl.store(o + tl.arange(0, R), tl.sum(centred * centred, 1) / C)


@triton.jit
def cumulated(a, o, R: tl.constexpr, C: tl.constexpr, axis: tl.constexpr, reverse: tl.constexpr):
    _store(o, tl.cumsum(_load(a, R, C), axis, reverse=reverse), R, C)


@triton.jit
def multiplied_up(a, o, R: tl.constexpr, C: tl.constexpr):
    _store(o, tl.cumprod(_load(a, R, C), 1), R, C)


@triton.jit
def _decayed(x, y):
    return x * 0.5 + y


@triton.jit
def decay(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.associative_scan(tl.load(a + i), 0, _decayed))


@triton.jit
def ordered(a, o, X: tl.constexpr, descending: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.sort(tl.load(a + i), descending=descending))


@triton.jit
def ordered_rows(a, o, R: tl.constexpr, C: tl.constexpr):
    _store(o, tl.sort(_load(a, R, C), 1), R, C)


@triton.jit
def flipped(a, o, R: tl.constexpr, C: tl.constexpr):
    _store(o, tl.flip(_load(a, R, C), 1), R, C)


@triton.jit
def picked(a, k, o, R: tl.constexpr, C: tl.constexpr, K: tl.constexpr):
    _store(o, tl.gather(_load(a, R, C), _load(k, R, K), 1), R, K)


@triton.jit
def counted(a, o, X: tl.constexpr, B: tl.constexpr):
    tl.store(o + tl.arange(0, B), tl.histogram(tl.load(a + tl.arange(0, X)), B))


@triton.jit
def transposed(a, o, R: tl.constexpr, C: tl.constexpr):
    _store(o, tl.trans(_load(a, R, C)), C, R)


@triton.jit
def reshaped(a, o, R: tl.constexpr, C: tl.constexpr):
    tl.store(o + tl.arange(0, R * C), tl.reshape(_load(a, R, C) * 2, (R * C,)))


@triton.jit
def broadcast(a, b, o, R: tl.constexpr, C: tl.constexpr):
    x, y = tl.load(a + tl.arange(0, R)), tl.load(b + tl.arange(0, C))
    _store(o, x[:, None] + tl.broadcast_to(y[None, :], (R, C)), R, C)


@triton.jit
def joined(a, b, o, X: tl.constexpr):
    i = tl.arange(0, X)
    pairs = tl.join(tl.load(a + i), tl.load(b + i))
    tl.store(o + i[:, None] * 2 + tl.arange(0, 2)[None, :], pairs)


@triton.jit
def interleaved(a, b, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + tl.arange(0, 2 * X), tl.interleave(tl.load(a + i), tl.load(b + i)))


def _rows(kernel, function, given=None, out=None, tolerance=1e-5, name="", **more):
    given = normal(R, C) if given is None else given
    out = empty(R) if out is None else out
    return Case(
        *(kernel, (1,), {"a": given, "o": out, "R": R, "C": C, **more}, lambda a, **_: {"o": function(a)}),
        tolerance=tolerance,
        name=name,
    )


def _decay(a: np.ndarray) -> np.ndarray:
    out = a.copy()
    for k in range(1, len(a)):
        out[k] = out[k - 1] * np.float32(0.5) + a[k]
    return out


def _cumulated(a: np.ndarray, axis: int, back: bool) -> np.ndarray:
    return np.flip(np.cumsum(np.flip(a, axis), axis), axis) if back else np.cumsum(a, axis)


CASES = [
    _rows(sum_rows, lambda a: a.sum(1)),
    _rows(sum_columns, lambda a: a.sum(0), out=empty(C)),
    Case(
        *(
            sum_rows,
            (1,),
            {"a": np.full((R, 4096), 1, np.float16), "o": empty(R, dtype=np.float16)} | {"R": R, "C": 4096},
        ),
        lambda a, **_: {"o": np.full(R, 4096, np.float16)},
        tolerance=0,
        name="sum_fp16_through_fp32",
    ),
    _rows(
        *(sum_rows, lambda a: a.sum(1), integers(R, C), empty(R, dtype=np.int32)),
        name="sum_int32",
    ),
    Case(*(sum_all, (1,), {"a": normal(256), "o": empty(1), "X": 256}), lambda a, **_: {"o": [a.sum()]}),
    Case(
        *(extremes, (1,), {"a": normal(R, C), "o": empty(R), "p": empty(R), "R": R, "C": C}),
        lambda a, **_: {"o": a.max(1), "p": a.min(1)},
    ),
    Case(
        *(where_extreme, (1,)),
        {"a": normal(R, C), "o": empty(R, dtype=np.int32), "p": empty(R, dtype=np.int32), "R": R, "C": C},
        lambda a, **_: {"o": a.argmax(1), "p": a.argmin(1)},
    ),
    Case(
        *(max_with_index, (1,)),
        {"a": normal(R, C), "o": empty(C), "p": empty(C, dtype=np.int32), "R": R, "C": C},
        lambda a, **_: {"o": a.max(0), "p": a.argmax(0)},
    ),
    _rows(
        *(xor_rows, lambda a: np.bitwise_xor.reduce(a, 1), integers(R, C), empty(R, dtype=np.int32)),
    ),
    _rows(product_rows, lambda a: a.prod(1), tolerance=1e-4),
    _rows(by_magnitude, lambda a: np.abs(a).max(1)),
    Case(
        *(sum_in_steps, (1,), {"a": normal(1000), "o": empty(1), "n": 1000, "X": 64}),
        lambda a, **_: {"o": [a.sum()]},
        tolerance=1e-4,
    ),
    _rows(variance, lambda a: a.var(1)),
    *(
        _rows(
            *(cumulated, lambda a, axis=axis, back=back: _cumulated(a, axis, back)),
            out=empty(R, C),
            name=f"cumulated_{axis}{'_reverse' if back else ''}",
            axis=axis,
            reverse=back,
        )
        for axis, back in ((0, False), (1, False), (1, True))
    ),
    Case(
        *(
            cumulated,
            (1,),
            {"a": np.full((1, 4096), 1, np.float16), "o": empty(1, 4096, dtype=np.float16)}
            | {"R": 1, "C": 4096, "axis": 1, "reverse": False},
        ),
        lambda **_: {"o": np.arange(1, 4097).astype(np.float16)[None, :]},
        tolerance=0,
        name="cumulated_fp16_through_fp32",
    ),
    _rows(
        *(cumulated, lambda a: a.cumsum(1, dtype=np.int32), integers(R, C), empty(R, C, dtype=np.int32)),
        name="cumulated_int32",
        axis=1,
        reverse=False,
    ),
    _rows(multiplied_up, lambda a: a.cumprod(1), out=empty(R, C), tolerance=1e-4),
    Case(*(decay, (1,), {"a": normal(64), "o": empty(64), "X": 64}), lambda a, **_: {"o": _decay(a)}),
    *(
        Case(
            *(ordered, (1,), {"a": given, "o": empty(64, dtype=given.dtype), "X": 64, "descending": down}),
            lambda a, descending, **_: {"o": np.sort(a)[::-1] if descending else np.sort(a)},
            name=f"ordered_{given.dtype}{'_down' if down else ''}",
        )
        for given, down in ((normal(64), False), (normal(64), True), (integers(64), False))
    ),
    _rows(ordered_rows, lambda a: np.sort(a, 1), out=empty(R, C)),
    _rows(flipped, lambda a: a[:, ::-1], out=empty(R, C)),
    Case(
        *(picked, (1,)),
        {"a": normal(R, C), "k": integers(R, 4, low=0, high=C), "o": empty(R, 4), "R": R, "C": C, "K": 4},
        lambda a, k, **_: {"o": np.take_along_axis(a, k, 1)},
    ),
    Case(
        *(counted, (1,)),
        {"a": integers(256, low=0, high=8), "o": empty(8, dtype=np.int32), "X": 256, "B": 8},
        lambda a, **_: {"o": np.bincount(a, minlength=8)},
    ),
    _rows(transposed, lambda a: a.T, out=empty(C, R)),
    _rows(reshaped, lambda a: 2 * a.ravel(), out=empty(R * C)),
    Case(
        *(broadcast, (1,), {"a": normal(R), "b": normal(C), "o": empty(R, C), "R": R, "C": C}),
        lambda a, b, **_: {"o": a[:, None] + b},
    ),
    Case(
        *(joined, (1,), {"a": normal(64), "b": normal(64), "o": empty(64, 2), "X": 64}),
        lambda a, b, **_: {"o": np.stack([a, b], 1)},
    ),
    Case(
        *(interleaved, (1,), {"a": normal(64), "b": normal(64), "o": empty(128), "X": 64}),
        lambda a, b, **_: {"o": np.stack([a, b], 1).ravel()},
    ),
]
