"""torch's own worker processes, covered by the environment variable alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import IS_STANDIN, raw_error
from test_processes import ERROR, WORKERS, run, start_up_files  # noqa: F401 - a fixture

DRIVER_SCRIPT = Path(__file__).with_name("inductor_pool.py")


@pytest.mark.proves("torchrun", "two workers, by the variable alone")
def test_torchrun():
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", WORKERS)
    assert [report["here"] for report in run(*launcher, plugin=False)] == [ERROR] * 2
    reports = run(*launcher, plugin=True)
    assert {report["rank"] for report in reports} == {"0", "1"}
    assert [report["here"].get("multibuffer") for report in reports] == [False] * 2


@pytest.mark.proves("torch Inductor's compile workers", "subprocess pool: fork and spawn, kernels come back")
@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_subprocess_pool(kind):
    (without,) = run(DRIVER_SCRIPT, "pool", kind, plugin=False)
    assert raw_error("multibuffer")[1] in without["error"]
    (report,) = run(DRIVER_SCRIPT, "pool", kind, plugin=True)
    assert report["multibuffer"] == [False, True]
    assert report["leaked in the parent's source"] == [False, False]


@pytest.mark.proves(
    "torch Inductor's compile workers", "AsyncCompile.triton: subprocess, fork, spawn; candidates come back"
)
@pytest.mark.parametrize("kind", ["subprocess", "fork", "spawn"])
def test_async_compile(kind):
    if not IS_STANDIN:
        pytest.skip("the worker looks for an active driver; triton-ascend's needs an NPU")
    (without,) = run(DRIVER_SCRIPT, "async", kind, plugin=False)
    assert raw_error("multibuffer")[1] in without["error"]
    (report,) = run(DRIVER_SCRIPT, "async", kind, plugin=True)
    assert report["multibuffer"] == [False, True]
    assert report["in a worker"] is True
