"""Kernels of the kinds that people write, computed offline, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.offline.execute import kernels_elementwise, kernels_matrices, kernels_memory, kernels_reductions
from tests.offline.execute.cases import Case
from triton_ascend_compat.offline import Session, offline

MODULES = (kernels_elementwise, kernels_reductions, kernels_memory, kernels_matrices)
CASES = [case for module in MODULES for case in module.CASES]


@pytest.fixture(scope="module")
def all_in_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with offline(execute=True, cache=tmp_path_factory.mktemp("kernels")) as session:
        yield session


@pytest.mark.parametrize("case", CASES, ids=str)
def test_computes_what_numpy_does(case: Case, all_in_one: Session) -> None:
    tally = all_in_one.executor.tally
    before, arguments = tally.computed, case.fresh()
    case.kernel[case.grid](**arguments, **case.options)
    assert tally.computed == before + 1
    case.check(arguments)


def test_names_are_unique_and_there_are_enough() -> None:
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names) >= 80
