"""The same work in two processes, one with the shim and one without, each asked in turn: so neither pays for
being switched, after which the interpreter has to specialize its code again.

Two processes differ by some per cent all the same, by where their memory happens to lie: several pairs of
them are taken.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from measuring import Comparison, alternate, summary, timed

#: How many pairs of processes.
PROCESSES = 12


def with_against_without(work: str, times: int, pairs: int) -> Comparison:
    """What `work` takes with the shim, against without it.

    Args:
        work: "module:function"; the function sets up and returns what is to be timed.
        times: how often that is done for one timing.
        pairs: how many pairs of timings.
    """
    timings = []
    for _ in range(PROCESSES):
        with _worker(work, times, "off") as without, _worker(work, times, "on") as with_shim:
            asked = functools.partial(_ask, without), functools.partial(_ask, with_shim)
            timings += alternate(*asked, max(2, pairs // PROCESSES))
    return summary(timings)


@contextlib.contextmanager
def _worker(work: str, times: int, shim: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, __file__, work, str(times), shim]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TRITON_CACHE_DIR": f"{folder}/cache"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            yield process
            assert process.stdin is not None
            process.stdin.close()


def _ask(worker: subprocess.Popen[str]) -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def _main(work: str, times: int, shim: str) -> None:
    import triton_ascend_compat

    module, _, function = work.partition(":")
    timer = timed(getattr(importlib.import_module(module), function)(), times)
    if shim == "on":
        triton_ascend_compat.enable()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what triton-ascend prints is no answer
    for _ in sys.stdin:
        print(timer(), file=answers, flush=True)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
