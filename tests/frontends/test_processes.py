"""Processes, covered by the environment variable alone. Needs the package installed, start-up files too."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKERS = Path(__file__).with_name("workers.py")
ERROR = {"error": "ValueError: 'multibuffer' is not in list"}


@pytest.fixture(scope="module", autouse=True)
def start_up_files():
    files = importlib.metadata.files("triton-ascend-compat") or []
    assert any(file.suffix == ".pth" for file in files), "triton-ascend-compat is not installed here"


def run(*command, plugin):
    environment = {
        key: value for key, value in os.environ.items() if key not in ("TRITON_PLUGIN", "PYTHONPATH")
    }
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
