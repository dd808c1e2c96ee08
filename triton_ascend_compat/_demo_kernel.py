"""The kernel of the reported case, as Inductor writes a 1-D pointwise kernel: five fp32 loads, one store."""

import triton
import triton.language as tl

#: 2**28 elements at XBLOCK 4096 make a grid of 65536, one more than an Ascend launch takes.
ELEMENTS = 2**28
XBLOCK = 4096

SIGNATURE = {**{f"in_ptr{i}": "*fp32" for i in range(5)}, "out_ptr0": "*fp32", "xnumel": "i32"}


@triton.jit  # type: ignore[untyped-decorator]
def add_five(in_ptr0, in_ptr1, in_ptr2, in_ptr3, in_ptr4, out_ptr0, xnumel, XBLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    xmask = xindex < xnumel
    total = tl.load(in_ptr0 + xindex, xmask) + tl.load(in_ptr1 + xindex, xmask)
    total += tl.load(in_ptr2 + xindex, xmask) + tl.load(in_ptr3 + xindex, xmask)
    total += tl.load(in_ptr4 + xindex, xmask)
    tl.store(out_ptr0 + xindex, total, xmask)
