"""Addresses and control flow: block pointers, strides, indices, atomics, loops, branches, grids."""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from tests.offline.execute.cases import Case, empty, integers, normal


@triton.jit
def grid_ids(o):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(o + at, x + 10 * y + 100 * z)


@triton.jit
def block_copy(a, o, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_block_ptr(
        a, (rows, columns), (columns, 1), (tl.program_id(0) * R, tl.program_id(1) * C), (R, C), (1, 0)
    )
    target = tl.make_block_ptr(
        o, (rows, columns), (columns, 1), (tl.program_id(0) * R, tl.program_id(1) * C), (R, C), (1, 0)
    )
    tl.store(target, tl.load(source, boundary_check=(0, 1)), boundary_check=(0, 1))


@triton.jit
def block_advance(a, o, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_block_ptr(a, (R, columns), (columns, 1), (0, 0), (R, C), (1, 0))
    total = tl.zeros((R,), tl.float32)
    for _ in range(0, columns, C):
        total += tl.sum(tl.load(source), 1)
        source = tl.advance(source, (0, C))
    tl.store(o + tl.arange(0, R), total)


@triton.jit
def by_index(a, k, o, n, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i, tl.load(a + tl.load(k + i, i < n, other=0), i < n), i < n)


@triton.jit
def scattered(a, k, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + tl.load(k + i), tl.load(a + i))


@triton.jit
def embedded(table, k, o, width, W: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, W)
    at = tl.load(k + row)
    tl.store(o + row * width + c, tl.load(table + at * width + c, c < width), c < width)


@triton.jit
def rows_of(a, o, row_stride, columns, C: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, C)
    tl.store(o + row * columns + c, tl.load(a + row * row_stride + c, c < columns), c < columns)


@triton.jit
def in_place(a, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    tl.store(a + i, tl.load(a + i) + 1)


@triton.jit
def added_up(a, o, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    tl.atomic_add(o, tl.sum(tl.load(a + i), 0))


@triton.jit
def added_rows(a, o, C: tl.constexpr):
    c = tl.arange(0, C)
    tl.atomic_add(o + c, tl.load(a + tl.program_id(0) * C + c))


@triton.jit
def largest_and_least(a, o, p, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + tl.program_id(0) * X + i)
    tl.atomic_max(o + i, x)
    tl.atomic_min(p + i, x)


@triton.jit
def bitwise_atomics(a, o, p, q, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + tl.program_id(0) * X + i)
    tl.atomic_and(o + i, x)
    tl.atomic_or(p + i, x)
    tl.atomic_xor(q + i, x)


@triton.jit
def tickets(counter, o):
    tl.store(o + tl.program_id(0), tl.atomic_add(counter, 1))


@triton.jit
def looped(a, o, turns, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    for k in range(turns):
        x = x * 0.5 + k
    tl.store(o + i, x)


@triton.jit
def nested(o, n, m):
    total = 0
    for i in range(n):
        for j in range(i, m):
            total += i * j
    tl.store(o, total)


@triton.jit
def halved(a, o, limit):
    x = tl.load(a)
    steps = 0
    while x > limit:
        x = x / 2
        steps += 1
    tl.store(o, steps)


@triton.jit
def ends_early(a, o, n, X: tl.constexpr):
    at = tl.program_id(0) * X
    if at >= n:
        return
    i = at + tl.arange(0, X)
    tl.store(o + i, tl.load(a + i, i < n, other=0.0) * 3, i < n)


@triton.jit
def branches(a, o, kind, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    if kind == 0:
        x = x + 1
    elif kind == 5:
        x = x * 2
    else:
        x = -x
    tl.store(o + i, x)


@triton.jit
def unrolled(a, o, X: tl.constexpr, T: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.load(a + i)
    for k in tl.static_range(T):
        x += k * x
    tl.store(o + i, x)


@triton.jit
def several_blocks(a, o, n, X: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, X), tl.num_programs(0)):
        i = block * X + tl.arange(0, X)
        tl.store(o + i, tl.load(a + i, i < n) + block, i < n)


@triton.jit
def through_pointers(addresses, o, X: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, X)
    source = tl.load(addresses + row).to(tl.pointer_type(tl.float32))
    tl.store(o + row * X + i, tl.load(source + i))


def _halvings(x: float, limit: float) -> int:
    steps = 0
    while x > limit:
        x, steps = x / 2, steps + 1
    return steps


def _looped(a: np.ndarray, turns: int) -> np.ndarray:
    for k in range(turns):
        a = a * np.float32(0.5) + k
    return a


#: In a tuple: Triton's interpreter compares the globals of a kernel's module.
(*POINTED,) = normal(2, 64)

CASES = [
    Case(
        *(grid_ids, (3, 4, 2), {"o": empty(2, 4, 3, dtype=np.int32)}),
        lambda **_: {"o": np.add.outer(np.add.outer(100 * np.arange(2), 10 * np.arange(4)), np.arange(3))},
    ),
    Case(
        *(block_copy, (2, 2)),
        {"a": normal(13, 27), "o": empty(13, 27), "rows": 13, "columns": 27, "R": 8, "C": 16},
        lambda a, **_: {"o": a},
    ),
    Case(
        *(block_advance, (1,), {"a": normal(8, 64), "o": empty(8), "columns": 64, "R": 8, "C": 16}),
        lambda a, **_: {"o": a.sum(1)},
    ),
    Case(
        *(by_index, (1,)),
        {"a": normal(200), "k": integers(50, low=0, high=200), "o": empty(50), "n": 50, "X": 64},
        lambda a, k, **_: {"o": a[k]},
    ),
    Case(
        *(scattered, (1,)),
        {"a": normal(64), "k": np.arange(64, dtype=np.int32)[::-1].copy(), "o": empty(64), "X": 64},
        lambda a, k, **_: {"o": a[k]},
    ),
    Case(
        *(embedded, (5,)),
        {"table": normal(9, 20), "k": integers(5, low=0, high=9), "o": empty(5, 20), "width": 20, "W": 32},
        lambda table, k, **_: {"o": table[k]},
    ),
    Case(
        *(rows_of, (6,), {"a": normal(6, 40), "o": empty(6, 25), "row_stride": 40, "columns": 25, "C": 32}),
        lambda a, **_: {"o": a[:, :25]},
    ),
    Case(*(in_place, (4,), {"a": normal(256), "X": 64}), lambda a, **_: {"a": a + 1}),
    Case(
        *(added_up, (4,), {"a": normal(256), "o": np.zeros(1, np.float32), "X": 64}),
        lambda a, **_: {"o": [a.sum()]},
        tolerance=1e-4,
    ),
    Case(
        *(added_rows, (5,), {"a": normal(5, 32), "o": np.ones(32, np.float32), "C": 32}),
        lambda a, o, **_: {"o": o + a.sum(0)},
    ),
    Case(
        *(largest_and_least, (5,)),
        {"a": integers(5, 32), "o": np.zeros(32, np.int32), "p": np.zeros(32, np.int32), "X": 32},
        lambda a, **_: {"o": np.maximum(a.max(0), 0), "p": np.minimum(a.min(0), 0)},
    ),
    Case(
        *(bitwise_atomics, (3,)),
        {"a": integers(3, 32)} | {name: integers(32) for name in "opq"} | {"X": 32},
        lambda a, o, p, q, **_: {
            "o": o & np.bitwise_and.reduce(a, 0),
            "p": p | np.bitwise_or.reduce(a, 0),
            "q": q ^ np.bitwise_xor.reduce(a, 0),
        },
    ),
    Case(
        *(tickets, (7,), {"counter": np.zeros(1, np.int32), "o": empty(7, dtype=np.int32)}),
        lambda **_: {"counter": [7], "o": np.arange(7)},
    ),
    *(
        Case(
            *(looped, (1,), {"a": normal(64), "o": empty(64), "turns": turns, "X": 64}),
            lambda a, turns, **_: {"o": _looped(a, turns)},
            name=f"looped_{turns}",
        )
        for turns in (0, 7)
    ),
    Case(
        *(nested, (1,), {"o": empty(1, dtype=np.int32), "n": 6, "m": 9}),
        lambda **_: {"o": [sum(i * j for i in range(6) for j in range(i, 9))]},
    ),
    Case(
        *(halved, (1,), {"a": np.array([1000], np.float32), "o": empty(1, dtype=np.int32), "limit": 1.5}),
        lambda **_: {"o": [_halvings(1000.0, 1.5)]},
    ),
    Case(
        *(ends_early, (8,), {"a": normal(150), "o": empty(150), "n": 150, "X": 32}),
        lambda a, **_: {"o": a * 3},
    ),
    *(
        Case(
            *(branches, (1,), {"a": normal(64), "o": empty(64), "kind": kind, "X": 64}),
            lambda a, kind, **_: {"o": {0: a + 1, 5: 2 * a}.get(kind, -a)},
            name=f"branches_{kind}",
        )
        for kind in (0, 5, 9)
    ),
    Case(
        *(unrolled, (1,), {"a": normal(64), "o": empty(64), "X": 64, "T": 4}),
        lambda a, **_: {"o": a * 2 * 3 * 4},
    ),
    Case(
        *(several_blocks, (3,), {"a": normal(500), "o": empty(500), "n": 500, "X": 64}),
        lambda a, **_: {"o": a + np.arange(500) // 64},
    ),
    Case(
        *(through_pointers, (2,)),
        {"addresses": np.array([row.ctypes.data for row in POINTED], np.int64), "o": empty(2, 64), "X": 64},
        lambda **_: {"o": POINTED},
    ),
]
