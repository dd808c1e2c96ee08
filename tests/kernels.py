"""Kernels that the tests compile. They need no torch."""

import triton
import triton.language as tl

SIGNATURE = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, XBLOCK: tl.constexpr):
    offsets = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)


@triton.jit
def named_like_options(x_ptr, y_ptr, out_ptr, n, multibuffer: tl.constexpr, num_warps: tl.constexpr):
    """Its parameters have the names of compile options, and are parameters all the same."""
    offsets = tl.program_id(0) * num_warps + tl.arange(0, num_warps)
    mask = offsets < n
    value = tl.load(x_ptr + offsets, mask)
    if multibuffer:
        value += tl.load(y_ptr + offsets, mask)
    tl.store(out_ptr + offsets, value, mask)


@triton.jit
def maybe_scaled(x_ptr, out_ptr, n, scale: tl.constexpr, XBLOCK: tl.constexpr):
    """A constexpr parameter whose value may be None."""
    offsets = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = offsets < n
    value = tl.load(x_ptr + offsets, mask)
    if scale is not None:
        value = value * scale
    tl.store(out_ptr + offsets, value, mask)
