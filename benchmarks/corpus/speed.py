"""What the offline mode costs besides the compilers themselves.

The same kernels are compiled in offline mode, and with nothing but the one change without which a compile
cannot end here: alternating, each time into an empty cache.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from injections import compiled_sources, with_constants

from triton_ascend_compat import generations
from triton_ascend_compat.offline import Session, backend, hivm, offline

ROUNDS, KERNELS = 5, 40


def measure(session: Session) -> dict[str, Any]:
    """Median milliseconds of CPU time, the compilers' included, for all kernels: with the bare change,
    offline, and offline a second time. CPU time, as other programs on the machine do not add to it."""
    sources = compiled_sources(session.device)[:KERNELS]
    bare, first, second = [], [], []

    def run_bare() -> None:
        with tempfile.TemporaryDirectory() as folder, _bare_change(session, Path(folder)):
            bare.append(_compile_all(sources, session))

    def run_offline() -> None:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(offline(session.chip, hivm=session.hivm, cache=folder))
            first.append(_compile_all(sources, session))
            second.append(_compile_all(sources, session))

    for number in range(ROUNDS):
        for run in (run_bare, run_offline) if number % 2 else (run_offline, run_bare):
            run()
    return {
        "kernels": len(sources),
        "bare": statistics.median(bare),
        "first": statistics.median(first),
        "second": statistics.median(second),
        "ratio": statistics.median(ours / theirs for ours, theirs in zip(first, bare)),
    }


def _cpu_milliseconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) * 1e3


def _compile_all(sources: list[Any], session: Session) -> float:
    import triton

    fresh = [with_constants(source) for source in sources]
    started = _cpu_milliseconds()
    for source in fresh:
        triton.compile(source, target=session.target)
    return _cpu_milliseconds() - started


@contextlib.contextmanager
def _bare_change(session: Session, cache: Path) -> Iterator[None]:
    """What it takes at least: the last stage keeps its text, or finds stand-ins where it would need CANN.

    The session that is open is taken away for a while, so that nothing of it acts.
    """
    from triton_ascend_compat.offline.session import _state

    cls = backend.backend_class()
    namespace = generations.backend_namespace(cls)
    original, utils = cls.add_stages, namespace["NPUUtils"]

    class NPUUtils:
        """Stand-in for the class that asks the device which chip it is."""

        def get_arch(self) -> str:
            return session.chip

    @functools.wraps(original)
    def add_stages(self: Any, stages: dict[str, Any], options: Any) -> None:
        original(self, stages, options)
        if not session.hivm:
            backend.replace_binary_stage(self, stages)

    saved = dict(os.environ)
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    if session.hivm:
        assert session.tools is not None
        hivm.write_stand_ins(cache)
        os.environ["PATH"] = hivm.search_path(cache, session.tools, os.environ["PATH"])
    mine, _state.mine()[:] = list(_state.mine()), []
    everyone, _state.open[:] = list(_state.open), []
    cls.add_stages, namespace["NPUUtils"] = add_stages, NPUUtils
    try:
        yield
    finally:
        cls.add_stages, namespace["NPUUtils"] = original, utils
        _state.open[:] = everyone
        _state.mine()[:] = mine
        os.environ.clear()
        os.environ.update(saved)
