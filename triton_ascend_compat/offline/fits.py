"""The largest config of a kernel that fits into on-chip memory."""

from __future__ import annotations

import copy
import heapq
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.offline.records import CompileRecord

#: How people name block sizes: XBLOCK, BLOCK_SIZE_M, TILE_N, and FLA's BT, BK, BV.
_BLOCK_NAME = re.compile(r"BLOCK|TILE|^B[A-Z0-9]$")

#: A search ends after so many compiles: three block sizes may be halved in many ways.
MOST_TRIES = 16

_SMALLEST_BLOCK = 16


def block_parameters(constexprs: Mapping[str, Any], tuned: Iterable[str]) -> list[str]:
    """The constexpr parameters that are block sizes: even numbers which a tuner sets, or, where it sets
    none, which are named like one."""
    sizes = {name for name, value in constexprs.items() if _is_block_size(value)}
    return sorted(sizes & set(tuned) or {name for name in sizes if _BLOCK_NAME.search(name)})


def smaller(constexprs: Mapping[str, Any], blocks: Iterable[str]) -> Iterator[dict[str, int]]:
    """Block sizes below those in `constexprs`, by halving, in order of falling product."""
    names = tuple(blocks)
    start = tuple(int(constexprs[name]) for name in names)
    queue, seen = [(-math.prod(start), start)], {start}
    while queue:
        _, sizes = heapq.heappop(queue)
        if sizes != start:
            yield dict(zip(names, sizes))
        for index, size in enumerate(sizes):
            if size > _SMALLEST_BLOCK and size % 2 == 0:
                halved = (*sizes[:index], size // 2, *sizes[index + 1 :])
                if halved not in seen:
                    seen.add(halved)
                    heapq.heappush(queue, (-math.prod(halved), halved))


def with_constexprs(source: Any, values: Mapping[str, Any]) -> Any:
    """A copy of `source` (an ASTSource) with other values for some of its constexpr parameters."""
    changed = copy.copy(source)
    changed.constants = {
        key: values.get(generations.parameter_of_constant(source.fn, key), value)
        for key, value in source.constants.items()
    }
    return changed


def among(records: Iterable[CompileRecord], overflowed: CompileRecord, blocks: Iterable[str]) -> Any:
    """The largest block sizes with which another record's compile of the same kernel ended well."""
    names = list(blocks)
    same = [
        record
        for record in records
        if record.ok
        and (record.kernel, record.location, record.chip, record.hivm)
        == (overflowed.kernel, overflowed.location, overflowed.chip, overflowed.hivm)
        and record.signature == overflowed.signature
        and all(_is_block_size(record.constexprs.get(name)) for name in names)
        and {**record.constexprs, **_only(overflowed.constexprs, names)} == dict(overflowed.constexprs)
    ]
    if not same:
        return None
    largest = max(same, key=lambda record: math.prod(record.constexprs[name] for name in names))
    return _only(largest.constexprs, names)


def search(
    overflowed: CompileRecord, blocks: list[str], compiles: Callable[[dict[str, int]], bool]
) -> dict[str, int] | None:
    """The first of the smaller block sizes with which the kernel compiles; None where none of those tried."""
    for tries, sizes in enumerate(smaller(overflowed.constexprs, blocks)):
        if tries == MOST_TRIES:
            return None
        if compiles(sizes):
            return sizes
    return None


def _only(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _is_block_size(value: Any) -> bool:
    return type(value) is int and value >= _SMALLEST_BLOCK and value % 2 == 0
