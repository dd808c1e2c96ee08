"""What the compiles of a kernel tell together."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import triton

import triton_ascend_compat
from tests.offline.kernels import add, tuned, wide_only
from tests.offline.test_hivm import tool as tool
from triton_ascend_compat.errors import AbsentOptionWarning
from triton_ascend_compat.offline import Pointer, findings, judging, offline

POINTERS = [Pointer("fp32")] * 3


def test_specializations_and_what_varied() -> None:
    with offline() as session:
        for n in range(1, 41):
            add[(1,)](*POINTERS, n, XBLOCK=64)
        add[(1,)](*POINTERS, 17, XBLOCK=128)  # another config, and no other specialization
    (found,) = findings.specializations(session.records)
    assert (found.kernel, found.count) == ("add", 3)
    assert found.varied == ("n == 1", "n divisible by 16")


def test_types_are_specializations_too() -> None:
    with offline() as session:
        for dtype in ("fp16", "fp32"):
            add[(1,)](*[Pointer(dtype)] * 3, 17, XBLOCK=64)
    (found,) = findings.specializations(session.records)
    assert found.count == 2
    assert "x: *fp16, *fp32" in found.varied


def run_tuner(*configs: dict[str, Any], **mode: Any) -> list[Any]:
    triton_ascend_compat.enable()
    try:
        with offline(**mode) as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", AbsentOptionWarning)
            triton.autotune([triton.Config(each) for each in configs], key=[])(add)[(1,)](*POINTERS, 1000)
    finally:
        triton_ascend_compat.disable()
    return session.records


def test_candidates_that_differ_in_what_is_left_out_are_one_kernel() -> None:
    records = run_tuner(*({"XBLOCK": 64, "auto_blockify_size": size} for size in (2, 4, 8)), {"XBLOCK": 128})
    (found,) = findings.vain(records)
    assert (found.configs, found.differ, found.left_out) == ((0, 1, 2), ("auto_blockify_size",), True)


def test_candidates_that_differ_without_effect_are_one_kernel(tool: str) -> None:
    """In a kernel without a loop there is nothing to multi-buffer."""
    records = run_tuner(*({"XBLOCK": 64, "multibuffer": value} for value in (True, False)), hivm=True)
    (found,) = findings.vain(records)
    assert (found.configs, found.differ, found.left_out) == ((0, 1), ("multibuffer",), False)


def test_candidates_that_differ_are_not_vain() -> None:
    assert findings.vain(run_tuner({"XBLOCK": 64}, {"XBLOCK": 128})) == []


@pytest.mark.parametrize(
    ("sizes", "failing"),
    [
        ([32, 128], {"all": [32], "unexpected": [], "none": []}),
        ([32], {"all": [32], "unexpected": [32], "none": [32]}),
    ],
)
def test_what_a_static_assert_rules_out(sizes: list[int], failing: dict[str, list[int]]) -> None:
    with offline() as session:
        try:
            tuned(sizes, fn=wide_only)[(1,)](*POINTERS, 1000)
        except triton.CompilationError:
            assert len(sizes) == 1
    for policy in judging.POLICIES:
        found = judging.failing(session.records, policy)
        assert [record.constexprs["XBLOCK"] for record in found] == failing[policy]
