"""Processes, covered by the environment variable alone. Needs the package installed, start-up files too."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import raw_error

WORKERS = Path(__file__).with_name("workers.py")
ERROR = {"error": f"ValueError: {raw_error('multibuffer')[1]}"}


@pytest.fixture(scope="module", autouse=True)
def start_up_files():
    files = importlib.metadata.files("triton-ascend-compat") or []
    assert any(file.suffix == ".pth" for file in files), "triton-ascend-compat is not installed here"


def run(*command, plugin, **variables):
    environment = {
        key: value for key, value in os.environ.items() if key not in ("TRITON_PLUGIN", "PYTHONPATH")
    }
    environment.update(variables)
    if plugin:
        environment["TRITON_PLUGIN"] = "triton_ascend_compat"
    done = subprocess.run(
        [sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.proves("processes", "fork, spawn and forkserver children, by the variable alone")
def test_multiprocessing():
    methods = ["fork", "spawn", "forkserver"]
    (without,) = run(WORKERS, *methods, plugin=False)
    assert [without[method] for method in methods] == [ERROR] * 3
    (report,) = run(WORKERS, *methods, plugin=True)
    assert [report[method].get("multibuffer") for method in methods] == [False] * 3
    assert len({report[method]["hash"] for method in methods}) == 1


@pytest.mark.proves("processes", "backends found in the tree (TRITON_BACKENDS_IN_TREE=1)")
def test_backends_in_tree():
    (without,) = run(WORKERS, plugin=False, TRITON_BACKENDS_IN_TREE="1")
    assert without["here"] == ERROR
    (report,) = run(WORKERS, plugin=True, TRITON_BACKENDS_IN_TREE="1")
    assert report["here"]["multibuffer"] is False


IMPORTED = """
import json, sys
import triton
from triton.runtime.driver import driver
resolved = getattr(driver, "_active", None) or getattr(vars(driver).get("default"), "_obj", None)
print(json.dumps({"modules": sorted(sys.modules), "driver": resolved is not None}))
"""


@pytest.mark.proves("processes", "importing Triton imports nothing more of it, and resolves no driver")
def test_import_is_no_heavier():
    (without,) = run("-c", IMPORTED, plugin=False)
    (report,) = run("-c", IMPORTED, plugin=True)
    assert "triton_ascend_compat.installer" in report["modules"]
    more = {name.partition(".")[0] for name in set(report["modules"]) - set(without["modules"])}
    assert not more & {"triton", "torch", "torch_npu", "numpy", "click", "rich"}
    assert (without["driver"], report["driver"]) == (False, False)
