"""Set-up of the tests that run on every Triton generation and on other people's frontends.

They need an environment made for them (see noxfile.py), which names itself in TRITON_ASCEND_COMPAT_LINE; in
any other they are not collected. Their outcomes, by what they prove, go to the file that
TRITON_ASCEND_COMPAT_RESULTS names; COMPATIBILITY.md is written from these files.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LINE = os.environ.get("TRITON_ASCEND_COMPAT_LINE")
collect_ignore_glob = [] if LINE else ["test_*.py"]
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob += ["test_inductor.py", "test_neighbours.py", "test_torch_processes.py"]
if importlib.util.find_spec("torch_npu") is None:
    collect_ignore_glob += ["test_torch_npu.py"]

#: Distributions whose versions stand in the matrix.
DISTRIBUTIONS = (
    "triton",
    "triton-ascend",
    "torch",
    "torch_npu",
    "triton-runner",
    "tritonparse",
    "jax-triton",
)

if LINE:
    _scratch = Path(tempfile.mkdtemp(prefix="frontends-"))
    # Before anything imports Triton or torch: nothing may land in the home directory.
    for variable in ("TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        os.environ[variable] = str(_scratch / variable.lower())
    # torch would load torch_npu, which the tests do when its libraries have their stand-ins.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    # Triton 3.9 warns at every cuda compile that the default will change.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "proves(frontend, what): the row of COMPATIBILITY.md that the test stands for"
    )
    config.stash[_CELLS] = {}


def pytest_unconfigure(config: pytest.Config) -> None:
    if LINE:
        shutil.rmtree(_scratch, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test compiles into an empty cache."""
    for variable in ("TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    return tmp_path


@pytest.fixture(autouse=True)
def compiles_to_the_end(own_cache: Path) -> Iterator[None]:
    """triton-ascend's own backend ends without CANN only in the offline mode; the stand-in always does."""
    from support import HAS_NPU, IS_STANDIN

    with contextlib.ExitStack() as stack:
        if HAS_NPU and not IS_STANDIN:
            from triton_ascend_compat.offline import offline

            stack.enter_context(offline())
        yield


@pytest.fixture
def shim() -> Iterator[Any]:
    """The shim switched on for one test; its once-a-process warnings start afresh."""
    import triton_ascend_compat
    from triton_ascend_compat.telling import tell

    tell.forget_warnings()
    status = triton_ascend_compat.enable()
    assert status.active, status
    yield triton_ascend_compat
    triton_ascend_compat.disable()


_CELLS = pytest.StashKey[dict[tuple[str, str], dict[str, Any]]]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = (yield).get_result()
    marker = item.get_closest_marker("proves")
    if marker is None or (report.when != "call" and report.passed):
        return
    cell = item.config.stash[_CELLS].setdefault(
        (str(marker.args[0]), str(marker.args[1])), {"passed": 0, "failed": [], "skipped": []}
    )
    if report.passed:
        cell["passed"] += 1
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        cell["skipped"].append(reason.removeprefix("Skipped: "))
    else:
        cell["failed"].append(item.name)


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = os.environ.get("TRITON_ASCEND_COMPAT_RESULTS")
    if not target or not LINE:
        return
    versions = {}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    from support import HAS_NPU, IS_STANDIN, SHAPE, raw_error

    backend = f"stand-in, options as in {SHAPE}" if IS_STANDIN else "triton-ascend's own, offline"

    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_text(
        json.dumps(
            {
                "line": LINE,
                "backend": backend if HAS_NPU else "none",
                "python": platform.python_version(),
                "raw_error": raw_error("KEY")[1],
                "versions": versions,
                "date": datetime.date.today().isoformat(),
                "cells": [
                    {"frontend": frontend, "what": what, **cell}
                    for (frontend, what), cell in session.config.stash[_CELLS].items()
                ],
            },
            indent=1,
        )
    )
