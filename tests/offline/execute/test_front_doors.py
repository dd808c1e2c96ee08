"""`pytest --ascend-execute` and `check --execute`: what was computed, what was not, and what went wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import numpy as np
import pytest
from tests.offline.execute import kernels_wrong as kernels

A = np.arange(64, dtype=np.float32)

def test_right():
    out = np.zeros_like(A)
    kernels.copied[(4,)](A, out, 64, 16)
    assert (out == A).all()

def test_wrong():
    out = np.zeros_like(A)
    kernels.copied[(4,)](A, out, 64, 16)
    assert (out == A + 1).all()

def test_wild():
    index = np.full(64, 2**30, np.int32)
    kernels.scattered[(1,)](A, index, np.zeros_like(A), 64)

def test_not_executed():
    out = np.zeros_like(A)
    kernels.assembly[(1,)](A, out, 64)
    assert (out == A).all()

def test_right_again():
    test_right()
"""
ROOT = Path(__file__).resolve().parents[3]


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", *command]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}  # the kernels are this project's own
    return subprocess.run(whole, capture_output=True, text=True, check=False, cwd=ROOT, env=env)


@pytest.mark.parametrize("asked", ["option", "ini", "xdist"])
def test_pytest_fails_skips_and_reports(tmp_path: Path, asked: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    ini = "ascend_offline = true\nascend_execute = true\n" if asked == "ini" else ""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n{ini}")
    options = [] if asked == "ini" else ["--ascend-offline", "--ascend-execute"]
    options += ["-n", "2"] if asked == "xdist" else ["-p", "no:xdist"]
    done = run(*("pytest", "-rA", "-p", "no:cacheprovider", str(tmp_path), *options), folder=tmp_path)
    told = done.stdout
    assert done.returncode == 1, told
    assert "2 failed, 2 passed, 1 skipped" in told
    assert "FAILED" in told
    assert "kernel assembly was not executed: it has inline assembly" in told
    assert "3 launches computed, 1 not executed" in told
    assert "crashed: SIG" in told


@pytest.mark.parametrize("kind", ["script", "pytest"])
def test_check_reports_what_was_computed(tmp_path: Path, kind: str) -> None:
    script = tmp_path / "test_it.py"
    script.write_text(TESTS + "\nif __name__ == '__main__':\n    test_right()\n    test_not_executed()\n")
    targets = [f"{script}"] if kind == "script" else ["pytest", str(script), "-k", "right or not_executed"]
    command = ["triton_ascend_compat", "check", "--execute", "--format=json", *targets]
    done = run(*command, folder=tmp_path)
    (target,) = json.loads(done.stdout)["targets"]
    computed = 1 if kind == "script" else 2
    assert target["execution"]["computed"] == computed, done.stdout + done.stderr
    assert target["execution"]["refused"] == [["assembly", "it has inline assembly", 1]]
    assert target["launches_not_executed"] == 1
    assert target["outside"] == []
    if kind == "script":
        assert "kernel assembly was not executed: it has inline assembly" in target["failure"]


def test_check_says_it_in_its_table(tmp_path: Path) -> None:
    script = tmp_path / "it.py"
    script.write_text(TESTS + "\ntest_right()\n")
    told = run("triton_ascend_compat", "check", "--execute", str(script), folder=tmp_path).stdout
    assert "1 launches computed, 0 not executed" in told
    assert "nothing was executed" not in told
