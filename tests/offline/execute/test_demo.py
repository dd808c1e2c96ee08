"""`demo --compute` shows real miscompiles; the same kernels, so that it cannot show what is not so."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from triton_ascend_compat.commands import compute_demo
from triton_ascend_compat.offline import Session


def test_the_demo_computes_and_compares() -> None:
    command = [sys.executable, "-m", "triton_ascend_compat", "demo", "--compute"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.count("WRONG") == len(compute_demo.MISCOMPILES)
    for miscompile in compute_demo.MISCOMPILES:
        assert miscompile.call in shown
        assert miscompile.fixed in shown


@pytest.mark.parametrize("miscompile", compute_demo.MISCOMPILES, ids=lambda shown: shown.call[:20])
def test_each_is_a_miscompile_of_the_linalg_text(
    miscompile: compute_demo.Miscompile, computing: Session
) -> None:
    got, expected = miscompile.run(np)
    assert computing.executor.tally.computed == 1
    assert (got != expected).any()


def test_a_compare_and_swap_returns_what_it_wrote(computing: Session) -> None:
    cell, old = np.zeros(1, np.int32), np.full(1, -1, np.int32)
    compute_demo.swap[(1,)](cell, old)
    assert cell[0] == old[0] == 7
