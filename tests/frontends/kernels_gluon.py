"""A Gluon kernel; importable where Triton has Gluon (3.4 and later)."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def store_arange(out_ptr, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, BLOCK, layout=layout)
    gl.store(out_ptr + offsets, offsets.to(gl.float32))
