"""The pytest plugin, in pytest runs of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import pytest
import triton
from tests.offline.kernels import add, source
from triton_ascend_compat.offline import Pointer, current_session
POINTERS = [Pointer("fp32")] * 3
"""

OFFLINE = """
def test_fixture(ascend_offline):
    add[(1,)](*POINTERS, 9, XBLOCK=8, multibuffer=False)
    assert ascend_offline.records[0].delivered["multibuffer"] is False

def test_delivered(ascend_delivered):
    add[(1,)](*POINTERS, 9, XBLOCK=8, multibuffer=False)
    assert len(ascend_delivered(add, multibuffer=False)) == 1
    with pytest.raises(pytest.fail.Exception, match="option multibuffer is False, expected True"):
        ascend_delivered("add", multibuffer=True)
    with pytest.raises(pytest.fail.Exception, match="unit_flag was not delivered: it was not asked for"):
        ascend_delivered(add, unit_flag=True)
    with pytest.raises(pytest.fail.Exception, match="kernel sub was not compiled in this test"):
        ascend_delivered("sub")

@pytest.mark.ascend_offline(chip=["Ascend910_9382", "Ascend910_9589"])
def test_chips():
    assert current_session().chip in ("Ascend910_9382", "Ascend910_9589")
    add[(1,)](*POINTERS, 9, XBLOCK=8)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    project = tmp_path / "project"
    project.mkdir()

    def run(tests: str, *arguments: str, ini: str = "") -> subprocess.CompletedProcess[str]:
        (project / "test_it.py").write_text(TESTS + tests)
        (project / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\n{ini}")
        plugins = ("-p", "triton_ascend_compat.pytest_plugin", "-p", "no:cacheprovider")
        return subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, *arguments],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_markers_and_fixtures_opt_in_by_themselves(run: Any) -> None:
    done = run(OFFLINE + "\ndef test_plain():\n    assert current_session() is None\n")
    assert "5 passed" in done.stdout, done.stdout
    assert "Ascend910B2: 2 compiles of 1 kernels, 0 failed" in done.stdout
    assert "Ascend910_9589: 1 compiles of 1 kernels, 0 failed" in done.stdout
    assert "4 launches were not executed" in done.stdout


def test_inert_and_light_unless_asked_for(run: Any) -> None:
    done = run(
        "import sys\n"
        "def test_plain():\n"
        "    assert 'triton_ascend_compat.offline.testing' not in sys.modules\n"
        "    assert not [name for name in sys.modules if name.startswith('rich')]\n"
    )
    assert "1 passed" in done.stdout, done.stdout
    assert "Ascend offline" not in done.stdout


@pytest.mark.parametrize("how", [("--ascend-offline", ""), ("-q", "ascend_offline = true")])
def test_a_whole_run(run: Any, how: tuple[str, str]) -> None:
    argument, ini = how
    done = run(
        "from tests.offline.kernels import tuned\nTUNER = tuned([8, 16])\n" + OFFLINE, argument, ini=ini
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_several_chips_and_xdist(run: Any) -> None:
    done = run(
        "def test_one():\n    add[(1,)](*POINTERS, 9, XBLOCK=8)\n" + OFFLINE,
        *("--ascend-offline", "--ascend-chip=Ascend910B2,Ascend910_9382", "-pxdist", "-n2"),
    )
    assert "8 passed" in done.stdout, done.stdout + done.stderr
    assert "Ascend910B2: 3 compiles" in done.stdout
    assert "Ascend910_9382: 4 compiles" in done.stdout
    assert "Ascend910_9589: 1 compiles" in done.stdout


LEAKY = """
def test_leaks(ascend_offline):
    leaky = source(multibuffer=False, auto_blockify_size=2)
    with pytest.warns(UserWarning, match="auto_blockify_size"):
        triton.compile(leaky, target=ascend_offline.target)

def test_refused(ascend_offline):
    with pytest.raises(ValueError, match="'multibufer' is not in list"):
        triton.compile(source(multibufer=False), target=ascend_offline.target)
"""


@pytest.mark.parametrize(("leaks", "counts"), [("warn", "2 passed"), ("error", "2 failed")])
def test_leaks(run: Any, leaks: str, counts: str) -> None:
    done = run(LEAKY, f"--ascend-leaks={leaks}")
    assert counts in done.stdout, done.stdout
    assert "multibuffer=False: moved to the options from the constants" in done.stdout
    assert "auto_blockify_size=2: no option of this release, left out of the constants" in done.stdout
    assert "multibufer=False: refused" in done.stdout
    assert ("misplaced compile options" in done.stdout) == (leaks == "error")


def test_results_that_nothing_computed_are_not_compared(run: Any) -> None:
    done = run(
        "def test_compares():\n    add[(1,)](*POINTERS, 9, XBLOCK=8)\n    assert 1 == 2\n"
        "def test_asserts_before():\n    assert 1 == 2\n"
        "def test_breaks():\n    add[(1,)](*POINTERS, 9, XBLOCK=8)\n    raise ValueError\n",
        *("--ascend-offline", "-rs"),
    )
    assert "2 failed, 1 skipped" in done.stdout, done.stdout
    assert "1 compiles, no launch executed: there are no results to compare" in done.stdout


def test_records_as_json_lines(run: Any, tmp_path: Path) -> None:
    run(OFFLINE, f"--ascend-records={tmp_path / 'records.jsonl'}")
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert sum("record" in line for line in lines) == 4
    assert sum(line["end"]["launches"] for line in lines if "end" in line) == 4


@pytest.mark.parametrize(
    ("arguments", "tests", "told"),
    [
        (["--ascend-offline", "--ascend-chip=Ascend910B7"], "", "unknown chip 'Ascend910B7'"),
        ([], "@pytest.mark.ascend_offline(chip='Ascend910B7')\ndef test_it(): pass\n", "unknown chip"),
    ],
)
def test_an_unknown_chip_is_a_usage_error(run: Any, arguments: list[str], tests: str, told: str) -> None:
    done = run(tests, *arguments)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert told in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
