"""What a launch takes whose kernel is in the in-memory cache, with a stand-in launcher that does nothing."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable
from types import SimpleNamespace

import triton
from measuring import Comparison, compare, timed
from sources import add
from workers import with_against_without

import triton_ascend_compat
from triton_ascend_compat.offline import offline
from triton_ascend_compat.offline.driver import Pointer, RecordingDriver

#: The offline mode of a worker lasts as long as its process.
_for_good = contextlib.ExitStack()


def hot_launch(pairs: int) -> Comparison:
    """With the shim against without it, with options that the backend has."""
    return with_against_without("launches:hot_work", 500, pairs)


def hot_work() -> Callable[[], object]:
    _for_good.enter_context(offline())
    arguments = (Pointer("fp32"), Pointer("fp32"), Pointer("fp32"), 4096)
    return lambda: add[(16,)](*arguments, XBLOCK=256, multibuffer=False, num_warps=4)


def cold_launch_with_absent_option(pairs: int) -> Comparison:
    """With an option that this release has not against none, where the kernel is not in memory: there a
    launch parses its options. Its compile is a stand-in that hands out what was compiled before."""

    def launch(**options: int) -> Callable[[], object]:
        def work() -> object:
            add.cache.clear()
            return add.warmup(*arguments, XBLOCK=256, grid=(16,), **options)

        return work

    arguments = (Pointer("fp32"), Pointer("fp32"), Pointer("fp32"), 4096)
    with tempfile.TemporaryDirectory() as cache, offline(cache=cache) as session:
        compiled = launch()()
        chip = SimpleNamespace(target=session.target, device=session.device, chip=session.chip)
    driver, compile_ = triton.runtime.driver.active, add.compile
    triton_ascend_compat.enable()
    triton.runtime.driver.set_active(RecordingDriver(lambda: chip, takes_thread_limit=False))
    add.compile = lambda *_, **__: compiled
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", triton_ascend_compat.AbsentOptionWarning)
            return compare(timed(launch(), 200), timed(launch(auto_blockify_size=2), 200), pairs)
    finally:
        add.compile = compile_
        triton.runtime.driver.set_active(driver)


def hot_launch_with_absent_option(pairs: int) -> Comparison:
    """With an option that this release has not, against one that it has, both with the shim on."""
    arguments = (Pointer("fp32"), Pointer("fp32"), Pointer("fp32"), 4096)

    def installed() -> object:
        return add[(16,)](*arguments, XBLOCK=256, set_workspace_multibuffer=2)

    def absent() -> object:
        return add[(16,)](*arguments, XBLOCK=256, auto_blockify_size=2)

    triton_ascend_compat.enable()
    with tempfile.TemporaryDirectory() as cache, offline(cache=cache), warnings.catch_warnings():
        warnings.simplefilter("ignore", triton_ascend_compat.AbsentOptionWarning)
        return compare(timed(installed, 500), timed(absent, 500), pairs)
