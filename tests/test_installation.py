"""Whose files are live where triton and triton-ascend are both installed; why an import of Triton fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
import sys
sys.path.insert(0, {site!r})
from triton_ascend_compat import installation
print(installation.whose_files())
"""


def distribution(site: Path, name: str, version: str, files: dict[str, str]) -> None:
    """What pip writes when it installs a distribution: its files, over whatever is there, their record."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    rows = []
    for path, text in files.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        rows.append(f"{path},sha256=x,{len(text)}")
    (info / "RECORD").write_text("\n".join(rows) + "\n")


ASCEND = {"triton/__init__.py": "ascend = 1\n", "triton/backends/ascend/driver.py": "driver = 1\n"}
UPSTREAM = {"triton/__init__.py": "upstream = 'another length'\n", "triton/knobs.py": "knobs = 1\n"}


def told(site: Path) -> str:
    """What is said in a process that finds these distributions before the real ones."""
    code = ASK.format(site=str(site))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_triton_ascend_over_triton_is_as_it_should_be(tmp_path: Path) -> None:
    distribution(tmp_path, "triton", "3.2.0", UPSTREAM)
    distribution(tmp_path, "triton-ascend", "3.2.1", ASCEND)
    assert "as they should be" in told(tmp_path)


def test_triton_over_triton_ascend_is_told_with_the_repair(tmp_path: Path) -> None:
    distribution(tmp_path, "triton-ascend", "3.2.0", ASCEND)
    distribution(tmp_path, "triton", "3.7.1", UPSTREAM)
    said = told(tmp_path)
    assert "1 of 2 files of triton-ascend are overwritten" in said
    assert "install triton-ascend again, last" in said


def test_uninstalling_triton_takes_files_of_triton_ascend_along(tmp_path: Path) -> None:
    distribution(tmp_path, "triton", "3.2.0", UPSTREAM)
    distribution(tmp_path, "triton-ascend", "3.2.1", ASCEND)
    (tmp_path / "triton/__init__.py").unlink()
    assert "1 of 2 files" in told(tmp_path)


def test_a_patched_file_is_not_taken_for_an_overwritten_one(tmp_path: Path) -> None:
    distribution(tmp_path, "triton", "3.2.0", UPSTREAM)
    distribution(tmp_path, "triton-ascend", "3.2.1", ASCEND)
    (tmp_path / "triton/__init__.py").write_text("patched = 'yet another length'\n" * 3)
    assert "as they should be" in told(tmp_path)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("No module named 'pybind11'", name="pybind11"), "pip install pybind11"),
        (ModuleNotFoundError("No module named 'triton'", name="triton"), "No module named 'triton'"),
        (ImportError("libtriton.so: undefined symbol"), "undefined symbol"),
    ],
)
def test_an_import_that_fails_is_told_as_what_it_is(error: ImportError, words: str) -> None:
    from triton_ascend_compat import installation

    said = installation.import_failure(error)
    assert words in said
    assert "\n" not in said
    assert ("pip install" in said) == (error.name == "pybind11")
