"""What the compiles of a kernel tell together."""

from __future__ import annotations

import contextlib
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
        for block in (128, 24):  # other configs, one of them not divisible by 16, and no other specialization
            with contextlib.suppress(Exception):  # 24 is no size that `arange` takes
                add[(1,)](*POINTERS, 17, XBLOCK=block)
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


def run_tuner(*configs: dict[str, Any], make: Any = triton.Config, **mode: Any) -> list[Any]:
    triton_ascend_compat.enable()
    try:
        with offline(**mode) as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", AbsentOptionWarning)
            tuner = triton.autotune([make(each) for each in configs], key=["n"])(add)
            for n in (1000, 1001, 1000):
                tuner[(1,)](*POINTERS, n)
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


def test_candidates_that_were_never_compiled_are_told_too() -> None:
    """What is a keyword of Config is left out there, so that Triton has the kernel in memory already."""

    def make(given: dict[str, Any]) -> Any:
        return triton.Config({"XBLOCK": given["XBLOCK"]}, auto_blockify_size=given["size"])

    records = run_tuner(*({"XBLOCK": 64, "size": size} for size in (2, 4, 8)), make=make)
    (found,) = findings.vain(records)
    assert (found.configs, found.differ, found.left_out) == ((0, 1, 2), ("auto_blockify_size",), True)
    assert [[fate.value for fate in record.keys] for record in records] == [[2], [4], [8]]
    assert [record.cached for record in records] == [False, True, True]


def test_the_same_config_twice_is_one_kernel() -> None:
    (found,) = findings.vain(run_tuner({"XBLOCK": 64}, {"XBLOCK": 64}))
    assert (found.configs, found.differ, found.left_out) == ((0, 1), (), False)


def test_candidates_that_differ_are_not_vain() -> None:
    records = run_tuner({"XBLOCK": 64}, {"XBLOCK": 128})
    assert findings.vain(records) == []
    assert len(records) == 2  # one a candidate, however often it is launched


@pytest.mark.parametrize("again", [1001, 1])
def test_a_candidate_that_remains_may_be_in_memory(again: int) -> None:
    """The configs that a run rules out are excused by those that it has; where they come from is all one."""
    with offline() as session:
        tuner = tuned([32, 128], fn=wide_only)
        tuner[(1,)](*POINTERS, 1000)
        tuner[(1,)](*POINTERS, again)
    assert sum(not record.ok for record in session.records) > 1
    assert judging.failing(session.records) == []


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
