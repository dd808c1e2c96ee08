"""Which block sizes are tried when a kernel does not fit."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from triton_ascend_compat.offline.fits import MOST_TRIES, block_parameters, search, smaller
from triton_ascend_compat.offline.records import CompileRecord, Overflow

sizes = st.integers(4, 12).map(lambda power: 2**power)


def overflowed(**constexprs: int) -> CompileRecord:
    empty: dict[str, str] = {}
    return CompileRecord(
        "k", None, "Ascend910B2", True, empty, constexprs, empty, empty, empty, overflow=Overflow("UB", 2, 1)
    )


def test_block_sizes_are_what_the_tuner_sets() -> None:
    assert block_parameters({"XBLOCK": 64, "size": 128, "EVEN": True}, ["size", "EVEN"]) == ["size"]


def test_or_what_is_named_like_one() -> None:
    constexprs = {"BLOCK_M": 64, "BK": 32, "TILE": 96, "D": 128, "BLOCK_ODD": 33, "BLOCK_FLAG": True}
    assert block_parameters(constexprs, []) == ["BK", "BLOCK_M", "TILE"]


@given(st.dictionaries(st.sampled_from(["BM", "BN", "BK"]), sizes, min_size=1))
def test_smaller_sizes_come_in_falling_order_and_once(start: dict[str, int]) -> None:
    tried = list(smaller(start, start))
    products = [math.prod(each.values()) for each in tried]
    assert products == sorted(products, reverse=True)
    assert len({tuple(each.items()) for each in tried}) == len(tried)
    assert all(each[name] <= start[name] for each in tried for name in start)
    assert all(product < math.prod(start.values()) for product in products)


def test_the_search_takes_the_first_that_compiles() -> None:
    found = search({"BM": 64, "BN": 64}, ["BM", "BN"], lambda each: each["BM"] * each["BN"] <= 1024)
    assert found is not None
    assert found["BM"] * found["BN"] == 1024


def test_the_search_gives_up() -> None:
    tried = []
    assert search({"BM": 2**30}, ["BM"], lambda each: bool(tried.append(each))) is None
    assert len(tried) == MOST_TRIES
