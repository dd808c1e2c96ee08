"""`demo --compute`: kernels that triton-ascend 3.2.0 compiles wrongly, computed, against NumPy."""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
import triton
import triton.language as tl


@triton.jit
def swap(cell, old):
    """Put 7 where 0 is, and say what was there before."""
    tl.store(old, tl.atomic_cas(cell, 0, 7))


@triton.jit
def pick(table, index, out, stride):
    """One element of each row: the one that `index` says."""
    row = tl.program_id(0)
    one = tl.arange(0, 1)
    tl.store(out + row + one, tl.load(table + row * stride + tl.load(index + one)))


@triton.jit
def high_half(x, out, X: tl.constexpr):
    """The high 32 bits of the square of each unsigned number: what tl.rand and its kin are made of."""
    i = tl.arange(0, X)
    number = tl.load(x + i)
    tl.store(out + i, tl.umulhi(number, number))


@dataclass(frozen=True)
class Miscompile:
    """A kernel, and `run`: it launches the kernel and returns what came out, and what NumPy says."""

    call: str
    fixed: str
    run: Callable[[Any], tuple[Any, Any]]


def _swap(np: Any) -> tuple[Any, Any]:
    cell, old = np.zeros(1, np.int32), np.full(1, -1, np.int32)
    expected = cell.copy()
    swap[(1,)](cell, old)
    return old, expected


def _pick(np: Any) -> tuple[Any, Any]:
    table, index = np.arange(40, dtype=np.int32).reshape(4, 10), np.array([3], np.int32)
    out = np.full(4, -1, np.int32)
    pick[(4,)](table, index, out, 10)
    return out, table[:, 3]


def _high_half(np: Any) -> tuple[Any, Any]:
    numbers = np.array([0xFFFFFFFF, 0x80000000, 0xC0000000, 3], np.uint32)
    out = np.zeros(4, np.uint32)
    high_half[(1,)](numbers.view(np.int32), out.view(np.int32), 4)
    return out, (numbers.astype(np.uint64) ** 2 >> 32).astype(np.uint32)


#: The commits are those of triton-ascend's repository, each read there, with the branches that had them.
MISCOMPILES = (
    Miscompile(
        "old = tl.atomic_cas(cell, 0, 7), cell is 0",
        "6f3896025 (2026-01-26), in release/3.2.1 and release/3.2.2",
        _swap,
    ),
    Miscompile(
        "tl.load(table + row * 10 + tl.load(index + i)), one index a block",
        "4ec4ceb60 (2026-03-31), in release/3.2.1 and release/3.2.2",
        _pick,
    ),
    Miscompile(
        "tl.umulhi(x, x) of 0xFFFFFFFF, 0x80000000, 0xC0000000, 3; with it tl.rand, randn, randint",
        "87de782fc (2026-05-08), in release/3.2.2, not in release/3.2.1",
        _high_half,
    ),
)


def run(release: str) -> bool:
    """Launch them all and print what came out; whether all could be computed."""
    from triton_ascend_compat.offline import HivmUnavailable, offline

    try:
        import numpy as np
    except ImportError as error:
        raise click.ClickException("--compute needs NumPy, to compare with: pip install numpy") from error
    try:
        with offline(execute=True) as session:
            click.echo(
                f"{release}: its own linalg text, lowered to machine code of this machine and run over the "
                "grid.\nWhat comes after linalg (bishengir-compile, CANN, the NPU) does not run here.\n"
            )
            for shown in MISCOMPILES:
                got, expected = shown.run(np)
                wrong = bool((got != expected).any())
                click.secho(f"{'WRONG' if wrong else 'right'}  {shown.call}", bold=True)
                click.echo(f"       computed {_listed(got)}, NumPy has {_listed(expected)}")
                click.echo(f"       fixed upstream by {shown.fixed}\n")
            assert session.executor is not None
            return session.executor.tally.computed == len(MISCOMPILES)
    except HivmUnavailable as error:
        raise click.ClickException(str(error)) from error


def _listed(array: Any) -> str:
    return ", ".join(str(number) for number in array)
