"""Kernels that the offline tests compile, and ways to compile them. They need no torch."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.compiler import ASTSource

SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}


@triton.jit
def add(x, y, out, n, XBLOCK: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def broken(x, y, out, n, XBLOCK: tl.constexpr):
    tl.store(out, tl.load(x) + undefined_name)  # noqa: F821


@triton.jit
def helper(x):
    return tl.load(x) + undefined_name  # noqa: F821


@triton.jit
def calls_broken(x, y, out, n, XBLOCK: tl.constexpr):
    tl.store(out, helper(x))


@triton.jit
def wide_only(x, y, out, n, XBLOCK: tl.constexpr):
    tl.static_assert(XBLOCK >= 64, "at least 64")
    tl.store(out + tl.arange(0, XBLOCK), tl.load(x + tl.arange(0, XBLOCK)))


@triton.jit
def two_loads_in_a_loop(x, y, out, n, XBLOCK: tl.constexpr):
    """Needs twice the memory with multi-buffering."""
    i = tl.arange(0, XBLOCK)
    total = tl.zeros((XBLOCK,), tl.float32)
    for step in range(0, n):
        total += tl.load(x + step * XBLOCK + i) + tl.load(y + step * XBLOCK + i)
    tl.store(out + i, total)


def source(fn: Any = add, **constants: Any) -> Any:
    """A source of `fn`; `constants` are added to, or replace, its block size."""
    return ASTSource(fn, dict(SIGNATURE), {"XBLOCK": 256, **constants})


def tuned(blocks: list[int], fn: Any = add) -> Any:
    """A new tuner over `fn`; made inside a session, as Triton 3.2 asks the driver for a benchmark then."""
    configs = [triton.Config({"XBLOCK": block}) for block in blocks]
    return triton.autotune(configs=configs, key=["n"])(fn)
