"""The suites of this folder, each as a process of its own: a quick part, or with WHOLE_SUITES=1 all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

pytest.importorskip("triton")

ROOT = Path(__file__).resolve().parents[2]
PART = ["--whole"] if os.environ.get("WHOLE_SUITES") == "1" else []


@pytest.mark.parametrize("suite", ["orders", "interrupts", "threads"])
def test_suite(suite: str, record_property: Callable[[str, object], None]) -> None:
    command = [sys.executable, "-m", f"tests.switching.{suite}", *PART]
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    *_, counts = done.stdout.splitlines() or [""]
    record_property("counts", counts)
    assert done.returncode == 0, done.stdout
    assert " hold (" in counts
