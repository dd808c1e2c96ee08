"""Kernels that go wrong, each in its own way."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def copied(a, o, n, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    tl.store(o + i, tl.load(a + i, i < n), i < n)


@triton.jit
def shifted(a, o, by, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + i + by, tl.load(a + i))


@triton.jit
def scattered(a, k, o, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o + tl.load(k + i), tl.load(a + i))


@triton.jit
def unmasked(a, o, n, X: tl.constexpr):
    i = tl.arange(0, X)
    tl.store(o, tl.sum(tl.load(a + i), 0))


@triton.jit
def waits(flag, o):
    if tl.program_id(0) == 0:
        seen = tl.load(flag)
        while seen == 0:
            seen = tl.load(flag)
        tl.store(o, seen)
    else:
        tl.store(flag, 1)


@triton.jit
def increased(a, n, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    tl.store(a + i, tl.load(a + i, i < n) + 1, i < n)


@triton.jit
def assembly(a, o, X: tl.constexpr):
    i = tl.arange(0, X)
    x = tl.inline_asm_elementwise("mov $0, $1", "=r,r", [tl.load(a + i)], tl.float32, True, 1)
    tl.store(o + i, x)


@triton.jit
def through_pointer(addresses, o, X: tl.constexpr):
    i = tl.arange(0, X)
    source = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(o + i, tl.load(source + i))


@triton.jit
def one_each(places, o):
    at = (tl.program_id(2) * 3 + tl.program_id(1)) * 4 + tl.program_id(0)
    tl.store(o + tl.load(places + at), 1.0)
