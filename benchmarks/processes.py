"""What whole interpreters take: starting up, and importing triton."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from measuring import Comparison, Timer, compare

ROOT = Path(__file__).resolve().parent.parent


def interpreter_start(pairs: int) -> Comparison:
    """`python -c pass` with the package installed and TRITON_PLUGIN unset, against an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        empty, installed = Path(folder, "empty"), Path(folder, "installed")
        for environment in (empty, installed):
            venv.EnvBuilder(with_pip=False, symlinks=True).create(environment)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        wheels = Path(folder, "wheels")
        _run([*pip, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={wheels}", str(ROOT)])
        python = str(installed / "bin" / "python")
        _run([*pip, f"--python={python}", "install", "--no-deps", "--no-index", *map(str, wheels.iterdir())])
        return compare(_process(str(empty / "bin" / "python"), "pass"), _process(python, "pass"), pairs)


def import_triton(pairs: int) -> Comparison:
    """`python -c 'import triton'` with the shim switched on by TRITON_PLUGIN, against the same without."""
    return compare(
        _process(sys.executable, "import triton"),
        _process(sys.executable, "import triton", TRITON_PLUGIN="triton_ascend_compat"),
        pairs,
    )


def _process(python: str, code: str, **variables: str) -> Timer:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_PLUGIN"}
    environment.update(variables)

    def timer() -> float:
        start = time.perf_counter()
        subprocess.run([python, "-c", code], check=True, env=environment, stdin=subprocess.DEVNULL)
        return time.perf_counter() - start

    return timer


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
