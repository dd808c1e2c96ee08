"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

triton = pytest.importorskip("triton")

from triton_ascend_compat import generations  # noqa: E402
from triton_ascend_compat.decision.policy import read_installed  # noqa: E402


def run(*arguments, **environment):
    """`python -m triton_ascend_compat ARGUMENTS`, with TRITON_PLUGIN unset unless given."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_PLUGIN"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "triton_ascend_compat", *arguments],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_status_of_an_inactive_process():
    done = run("status", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 1
    assert facts["active"] is False
    assert facts["triton"] == generations.installed_release()
    assert facts["options"] > 0
    assert facts["wrapped"] == []
    assert facts["import_error"] is None


def test_status_for_a_person():
    done = run("status")
    assert done.returncode == 1
    assert "TRITON_PLUGIN is not set" in done.stdout
    assert generations.installed_release() in done.stdout
    assert done.stderr == ""


def test_status_without_triton_says_so_in_one_line(tmp_path):
    (tmp_path / "triton.py").write_text("raise ImportError('no such thing\\nsecond line')")
    done = run("status", "--json", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert json.loads(done.stdout)["import_error"] == "ImportError: no such thing second line"
    assert done.stderr == ""


def test_demo_shows_the_error_and_the_way_out():
    done = run("demo", COLUMNS="200")
    assert done.returncode == 0, done.stdout + done.stderr
    broken, _, fixed = done.stdout.partition("With the shim")
    assert "ValueError: 'auto_blockify_size' is not in list" in broken
    rows = {line.split()[0]: line for line in fixed.splitlines() if line}
    assert "delivered" in rows["multibuffer=False"]
    assert "False" in rows["multibuffer=False"].split("delivered")[1]
    assert "'auto_blockfy_size' is not in list" in fixed
    assert "nearest known names: auto_blockify_size" in fixed
    if "auto_blockify_size" not in read_installed(generations.npu_backend_class()).types:
        assert "not in this release, ignored" in rows["auto_blockify_size=2"]
        assert "has no auto_blockify_size" in fixed
    assert done.stderr == ""


def test_demo_without_triton_is_one_line(tmp_path):
    (tmp_path / "triton.py").write_text("raise ImportError('broken')")
    done = run("demo", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.endswith("importing triton failed: broken")


@pytest.mark.parametrize("arguments", [("nonsense",), ("status", "--nonsense"), ("demo", "extra")])
def test_wrong_usage_is_exit_code_two_without_a_traceback(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Error:" in done.stderr


def test_help_names_every_command():
    from triton_ascend_compat.cli import COMMANDS

    printed = run("--help").stdout
    assert all(name in printed for name in COMMANDS)
