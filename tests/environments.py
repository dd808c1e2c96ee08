"""Real virtual environments for tests of what happens when an interpreter starts."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Environment:
    """A virtual environment without pip; `variables` are all that its processes get, besides PATH."""

    folder: Path
    variables: dict[str, str]

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def site_packages(self) -> Path:
        return self.folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

    def run(
        self, *arguments: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """`python ARGUMENTS` with the given environment variables added."""
        return subprocess.run(
            [self.python, *arguments],
            env={**self.variables, **variables},
            cwd=cwd or self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def files(self) -> set[str]:
        """Everything in site-packages, by relative path."""
        return {str(path.relative_to(self.site_packages)) for path in self.site_packages.rglob("*")}

    def link(self, *packages: str) -> None:
        """Make packages of the running interpreter importable here, without copying them."""
        for name in packages:
            spec = importlib.util.find_spec(name)
            assert spec is not None, f"{name} is not installed in the environment that runs the tests"
            assert spec.origin is not None
            origin = Path(spec.origin)
            source = origin.parent if origin.name == "__init__.py" else origin
            (self.site_packages / source.name).symlink_to(source)

    def pip(self, *arguments: str) -> None:
        """The running interpreter's pip, working on this environment; it needs no network here."""
        command = [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check", "-q"]
        subprocess.run([*command, *arguments], check=True, stdin=subprocess.DEVNULL, env=self.variables)

    def unpack(self, wheel: Path) -> None:
        """What `pip install WHEEL` does to site-packages, in a twentieth of the time."""
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site_packages)


def create(folder: Path) -> Environment:
    """A fresh environment in `folder`, with nothing installed."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    scratch = folder / "scratch"
    scratch.mkdir()
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(scratch),
        "TRITON_HOME": str(scratch),
        "TRITON_CACHE_DIR": str(scratch / "cache"),
        "TRITON_DUMP_DIR": str(scratch / "dump"),
    }
    if "LD_LIBRARY_PATH" in os.environ:
        variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return Environment(folder, variables)


def build_wheel(folder: Path, *, editable: bool = False) -> Path:
    """The wheel of this checkout, made by its own build backend as pip would, without a network."""
    hook = "build_editable" if editable else "build_wheel"
    code = f"import hatchling.build, sys; print(hatchling.build.{hook}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    return folder / done.stdout.split()[-1]
