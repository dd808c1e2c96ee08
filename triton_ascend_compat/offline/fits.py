"""What was tried and fits in place of a kernel that does not fit into on-chip memory."""

from __future__ import annotations

import copy
import heapq
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.offline.records import CompileRecord

if TYPE_CHECKING:
    from triton_ascend_compat.offline.compiling import Compile
    from triton_ascend_compat.offline.session import Session

#: How people name block sizes: XBLOCK, BLOCK_SIZE_M, TILE_N, and FLA's BT, BK, BV.
_BLOCK_NAME = re.compile(r"BLOCK|TILE|^B[A-Z0-9]$")

#: A search ends after so many compiles: three block sizes may be halved in many ways.
MOST_TRIES = 16

_SMALLEST_BLOCK = 16

#: What halves the memory of a kernel with a loop, where the block sizes are to stay.
_SWITCH = {"multibuffer": False}


def find(record: CompileRecord, ended: Compile, aside: Session) -> dict[str, Any] | None:
    """Smaller block sizes, or else an option, with which a kernel that does not fit was compiled and does.

    Args:
        record: that of the kernel that does not fit.
        ended: its compile.
        aside: a session to compile in.
    """

    def compiles(sizes: Mapping[str, Any], **more: Any) -> bool:
        from triton.compiler.compiler import compile

        source = with_constexprs(ended.source, sizes) if sizes else ended.source
        try:
            compile(source, target=aside.target, options={**(ended.options or {}), **more})
        except Exception:
            return False
        return True

    sizes = search(record.constexprs, blocks_of(record, ended), compiles)
    if sizes is None and (ended.options or {}).get("multibuffer") and compiles({}, **_SWITCH):
        return dict(_SWITCH)
    return sizes


def told(
    overflowed: Iterable[tuple[CompileRecord, Compile]], find: Callable[[CompileRecord], Any]
) -> dict[int, dict[str, Any]]:
    """What fits in place of each record, by its `id`. Configs that differ in block sizes only share one
    search."""
    found: dict[str, Any] = {}
    by_record = {}
    for record, ended in overflowed:
        blocks = blocks_of(record, ended)
        rest = {name: value for name, value in record.constexprs.items() if name not in blocks}
        key = str(
            (record.kernel, record.location, record.chip, record.signature, rest, bool(blocks) or record)
        )
        if key not in found:
            found[key] = find(record)
        by_record[id(record)] = found[key]
    return by_record


def blocks_of(record: CompileRecord, ended: Compile) -> list[str]:
    """The names of the block sizes of a compile."""
    config = ended.launch.config if ended.launch is not None else None
    return block_parameters(record.constexprs, config.kwargs if config is not None else ())


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


def search(
    constexprs: Mapping[str, Any], blocks: list[str], compiles: Callable[[dict[str, int]], bool]
) -> dict[str, int] | None:
    """The first of the smaller block sizes with which the kernel compiles; None where none of those tried."""
    return next(
        (sizes for sizes in itertools.islice(smaller(constexprs, blocks), MOST_TRIES) if compiles(sizes)),
        None,
    )


def _is_block_size(value: Any) -> bool:
    return type(value) is int and value >= _SMALLEST_BLOCK and value % 2 == 0
