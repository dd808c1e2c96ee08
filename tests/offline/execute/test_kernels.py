"""Kernels of the kinds that people write, computed offline, against NumPy."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from tests.offline.execute import kernels_elementwise, kernels_matrices, kernels_memory, kernels_reductions
from tests.offline.execute.cases import Case
from triton_ascend_compat.offline import Session, offline

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ascendnpuir") is None, reason="ascendnpu-ir (160 MB) is not installed"
)

MODULES = (kernels_elementwise, kernels_reductions, kernels_memory, kernels_matrices)
CASES = [case for module in MODULES for case in module.CASES]


@pytest.fixture(scope="module")
def computing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with offline(execute=True, cache=tmp_path_factory.mktemp("kernels")) as session:
        yield session


@pytest.mark.parametrize("case", CASES, ids=str)
def test_computes_what_numpy_does(case: Case, computing: Session) -> None:
    tally = computing.executor.tally
    before, arguments = tally.computed, case.fresh()
    case.kernel[case.grid](**arguments, **case.options)
    assert tally.computed == before + 1
    case.check(arguments)


def test_names_are_unique_and_there_are_enough() -> None:
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names) >= 80
