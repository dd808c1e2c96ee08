"""What whole interpreters take, in CPU time: starting up, and importing triton."""

from __future__ import annotations

import importlib.metadata
import os
import resource
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from measuring import Comparison, Timer, compare

ROOT = Path(__file__).resolve().parent.parent


def interpreter_start(pairs: int) -> Comparison:
    """`python -c pass` with the package installed and TRITON_PLUGIN unset, against an environment with a
    `.pth` file that does nothing: what any start-up file costs.

    In a virtual environment `site` processes every start-up file twice.
    """
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder, "empty")
        venv.EnvBuilder(with_pip=False, symlinks=True).create(empty)
        installed = _installed(Path(folder))
        site_packages = next(empty.glob("lib/python*/site-packages"))
        (site_packages / "nothing.pth").write_text("import os\n")
        return compare(_process(_python(empty), "pass"), _process(_python(installed), "pass"), pairs)


def import_triton(pairs: int) -> Comparison:
    """`python -c 'import triton'` with the shim switched on by TRITON_PLUGIN, against the same without."""
    with tempfile.TemporaryDirectory() as folder:
        python = _python(_installed(Path(folder)))
        site_packages = Path(str(importlib.metadata.distribution("triton-ascend").locate_file("")))
        on_path = {"PYTHONPATH": str(site_packages)}
        return compare(
            _process(python, "import triton", **on_path),
            _process(python, "import triton", TRITON_PLUGIN="triton_ascend_compat", **on_path),
            pairs,
        )


def _installed(folder: Path) -> Path:
    """An environment with this package, as users have it: from its wheel, with bytecode."""
    environment = folder / "installed"
    venv.EnvBuilder(with_pip=False, symlinks=True).create(environment)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = folder / "wheels"
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={wheels}", str(ROOT)])
    target = f"--python={_python(environment)}"
    _run([*pip, target, "install", "--no-deps", "--no-index", *map(str, wheels.iterdir())])
    return environment


def _python(environment: Path) -> str:
    return str(environment / "bin" / "python")


def _process(python: str, code: str, **variables: str) -> Timer:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_PLUGIN"}
    environment.update(variables)

    def timer() -> float:
        start = _children_time()
        subprocess.run([python, "-c", code], check=True, env=environment, stdin=subprocess.DEVNULL)
        return _children_time() - start

    return timer


def _children_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
