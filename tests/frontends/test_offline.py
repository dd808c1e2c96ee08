"""The offline mode on the installed Triton: ways in, records, and that nothing of it stays."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import triton
from kernels import add_one
from support import HAS_NPU, make_source
from triton.runtime.driver import driver

from triton_ascend_compat import generations
from triton_ascend_compat.offline import Pointer, offline

pytestmark = [
    pytest.mark.skipif(not HAS_NPU, reason="no npu backend is installed"),
    pytest.mark.proves("offline mode", "compiles, launches, records"),
]


@pytest.fixture
def session() -> Any:
    owner, slot = generations.active_driver_slot()
    before = vars(owner)[slot]
    with offline(keep_ir=True) as opened:
        yield opened
    assert vars(driver)[slot] is before


def test_compile_and_a_second_time_from_the_cache(session: Any) -> None:
    for _ in range(2):
        triton.compile(make_source({"BLOCK": 128}), target=session.target, options={"num_warps": 2})
    first, second = session.records
    assert [record.cached for record in session.records] == [False, True]
    assert first.constexprs == {"BLOCK": 128}
    assert first.delivered["num_warps"] == 2
    assert second.ir == first.ir


def test_warm_up_and_launch(session: Any) -> None:
    add_one.warmup(Pointer("fp32"), Pointer("fp32"), 1000, BLOCK=64, grid=(1,))
    add_one[(4,)](Pointer("fp32"), Pointer("fp32"), 1000, BLOCK=128, num_warps=8)
    assert [record.constexprs for record in session.records] == [{"BLOCK": 64}, {"BLOCK": 128}]
    assert session.records[1].asked["num_warps"] == 8
    assert session.launches == 1


def test_an_error_is_recorded_with_its_line(session: Any) -> None:
    with contextlib.suppress(Exception):
        add_one.warmup(Pointer("fp32"), Pointer("fp32"), 1000, BLOCK=1 << 30, grid=(1,))
    (record,) = session.records
    assert not record.ok
    assert record.error_location is not None
