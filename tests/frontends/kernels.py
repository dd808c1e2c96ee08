"""Kernels that the tests compile."""

import triton
import triton.language as tl


@triton.jit
def add_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask) + 1, mask)


@triton.jit
def named_like_options(
    x_ptr, out_ptr, n, BLOCK: tl.constexpr, multibuffer: tl.constexpr, num_warps: tl.constexpr
):
    """Has real parameters that are called like compile options."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask) + num_warps * multibuffer, mask)


@triton.jit
def add_optional(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """`y_ptr` may be None, which frontends state as a constant."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x_ptr + offsets, mask)
    if y_ptr is not None:
        value += tl.load(y_ptr + offsets, mask)
    tl.store(out_ptr + offsets, value, mask)


@triton.jit
def add_five(a_ptr, b_ptr, c_ptr, d_ptr, e_ptr, out_ptr, xnumel, XBLOCK: tl.constexpr):
    """The reported case: five fp32 loads, one-dimensional, pointwise."""
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    xmask = xindex < xnumel
    value = tl.load(a_ptr + xindex, xmask) + tl.load(b_ptr + xindex, xmask)
    value += tl.load(c_ptr + xindex, xmask) + tl.load(d_ptr + xindex, xmask)
    tl.store(out_ptr + xindex, value + tl.load(e_ptr + xindex, xmask), xmask)
