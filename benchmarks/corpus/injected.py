"""`injected.py PACKAGE`: as `operators.py`, then each kernel again with options among its constants.

One option that triton-ascend 3.2.0 has, one that it lacks, and one that is misspelt; before these, what the
first two are to equal. Run it with `triton-ascend-compat check`.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any

import operators
import triton
from triton.runtime.jit import JITFunction

from triton_ascend_compat import CompileOptionError

#: What is put among the constants, and the options that are asked for properly.
WAYS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({}, {"multibuffer": False}),
    ({"multibuffer": False}, {}),
    ({"auto_blockify_size": 2}, {}),
    ({"multibufer": False}, {}),
]


def call(*arguments: Any) -> None:
    """Call an operator, then compile its kernels in all ways, whatever became of the operator."""
    try:
        _call(*arguments)
    finally:
        for source in _compiled():
            for constants, options in WAYS:
                leaky = type(source)(
                    source.fn, dict(source.signature), {**source.constants, **constants}, source.attrs
                )
                with contextlib.suppress(CompileOptionError):
                    triton.compile(leaky, options=options)


def _compiled() -> list[Any]:
    """A source of each kernel that a launch compiled in this process."""
    found = [each for each in gc.get_objects() if isinstance(each, JITFunction)]
    caches = [kernels for fn in found for kernels in fn.cache.values() if kernels]
    return [next(iter(kernels.values())).src for kernels in caches]


if __name__ == "__main__":
    _call, operators.call = operators.call, call
    operators.main(*sys.argv[1:])
