"""What kernel sources take inside one process, on the real triton-ascend."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import triton
import triton.language as tl
from measuring import Comparison, Timer, compare, timed
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from workers import with_against_without

import triton_ascend_compat
from triton_ascend_compat.offline import DEFAULT_CHIP
from triton_ascend_compat.offline.backend import backend_class, replace_binary_stage

#: An option that every triton-ascend has had, and a value that is not its default.
LEAKED = {"multibuffer": False}
#: One that 3.2.0 has not.
ABSENT = {"auto_blockify_size": 2}


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def add(x, y, out, n, XBLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


SIGNATURE = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}


def make(leaked: dict[str, Any]) -> Any:
    """A source whose constants hold `leaked` besides the kernel's own."""
    return ASTSource(add, dict(SIGNATURE), {"XBLOCK": 256, **leaked})


def clean() -> object:
    return asked({})


def asked(leaked: dict[str, Any]) -> object:
    """What a compile asks of a source before it looks for the kernel."""
    source = make(leaked)
    return source.parse_options(), source.hash()


def clean_source(pairs: int) -> Comparison:
    """A source without leaked keys and its hash, with the shim against without it."""
    return with_against_without("sources:clean_work", 200, pairs)


def clean_work() -> Callable[[], object]:
    return clean


def leaky_source(pairs: int, leaked: dict[str, Any]) -> Comparison:
    """A source with one leaked option, told of before, against its clean twin, both with the shim on."""
    triton_ascend_compat.enable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", triton_ascend_compat.AbsentOptionWarning)
        return compare(timed(clean, 200), timed(lambda: asked(leaked), 200), pairs)


def cached_compile(pairs: int) -> Comparison:
    """`triton.compile` that finds its kernel in the cache on disk, with the shim against without it."""
    return with_against_without("sources:cached_work", 40, pairs)


def cached_work() -> Callable[[], object]:
    target = GPUTarget("npu", DEFAULT_CHIP, 0)

    def work() -> object:
        return triton.compile(make({}), target=target, options=LEAKED)

    with _without_cann():
        work()
    return work


@contextlib.contextmanager
def _without_cann() -> Iterator[None]:
    """Let compiles end without CANN, as the offline mode does, but without its marker in the cache: the hits
    that are timed run on the backend as it was published."""
    cls = backend_class()
    published = cls.add_stages

    @functools.wraps(published)
    def add_stages(backend: Any, stages: dict[str, Any], *arguments: Any) -> None:
        published(backend, stages, *arguments)
        replace_binary_stage(backend, stages)

    with mock.patch.object(cls, "add_stages", add_stages):
        yield


def on_threads(threads: int, sources: int, rounds: int) -> Comparison:
    """Leaky sources, hashed and asked for their options, on some threads against one: clock time each."""
    triton_ascend_compat.enable()
    return compare(_spread(1, sources), _spread(threads, sources), rounds)


def memory_growth(sources: int, warm_up: int) -> int:
    """Bytes of Python memory that `sources` leaky sources leave behind, after a warm-up."""
    triton_ascend_compat.enable()
    _spread(1, warm_up)()
    tracemalloc.start()
    try:
        _spread(1, warm_up)()
        before = _in_use()
        _spread(1, sources)()
        return _in_use() - before
    finally:
        tracemalloc.stop()


def _in_use() -> int:
    gc.collect()  # a source and what it carries refer to each other
    return tracemalloc.get_traced_memory()[0]


def _spread(threads: int, sources: int) -> Timer:
    def work(count: int) -> None:
        for _ in range(count):
            source = make(LEAKED)
            source.hash()
            source.parse_options()

    def timer() -> float:
        workers = [threading.Thread(target=work, args=(sources // threads,)) for _ in range(threads)]
        start = time.perf_counter()
        _each(threading.Thread.start, workers)
        _each(threading.Thread.join, workers)
        return (time.perf_counter() - start) / sources

    return timer


def _each(do: Callable[[threading.Thread], None], threads: list[threading.Thread]) -> None:
    for thread in threads:
        do(thread)
