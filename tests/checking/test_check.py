"""`check`: targets run in processes of their own, its exit codes, and what bad input gets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.offline.stand_in_bishengir import install
from triton_ascend_compat.checking import jobs
from triton_ascend_compat.checking.jobs import BadTarget, Target, module, parse_targets
from triton_ascend_compat.cli import main

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
import sys
import triton
from triton_ascend_compat.offline import Pointer, current_session
from tests.offline.kernels import add, broken, source, tuned
POINTERS = [Pointer("fp32")] * 3
"""


@pytest.fixture(autouse=True)
def in_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_stays_behind: Any) -> Any:
    (tmp_path / "project").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir(tmp_path / "project")
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        yield


def script(body: str, name: str = "bench.py") -> str:
    Path(name).write_text(PREAMBLE + body)
    return name


def check(*arguments: str) -> Result:
    try:
        runner = CliRunner(mix_stderr=False)  # click 8.1 mixes them unless told otherwise
    except TypeError:
        runner = CliRunner()
    return runner.invoke(main, ["check", *arguments])


def compiles(result: Result) -> list[dict[str, Any]]:
    return [each for target in json.loads(result.stdout)["targets"] for each in target["compiles"]]


def test_all_kernels_compile() -> None:
    result = check(script("tuned([64, 128])[(1,)](*POINTERS, 1000)\nprint('from the script')"))
    assert result.exit_code == 0, result.stderr
    assert "XBLOCK=64" in result.stdout
    assert "2 compiles of 1 kernels, 0 failed" in result.stdout
    assert "from the script" not in result.stdout


def test_several_targets_for_several_chips() -> None:
    first = script("add.warmup(*POINTERS, 1000, XBLOCK=64, grid=(1,))")
    second = script("add.warmup(*POINTERS, 1000, XBLOCK=int(sys.argv[1]), grid=(1,))", "other.py")
    result = check(
        "--format=json",
        "--allow-empty",
        "--chip=Ascend910B2,Ascend910_9382,Ascend910B2",
        "--jobs=2",
        first,
        f"{second} 32",
        "tests.offline.kernels",
    )
    assert result.exit_code == 0, result.stderr
    seen = [(each["chip"], each["constexprs"]["XBLOCK"]) for each in compiles(result)]
    assert seen == [
        ("Ascend910B2", 64),
        ("Ascend910_9382", 64),
        ("Ascend910B2", 32),
        ("Ascend910_9382", 32),
    ]


def test_a_kernel_that_does_not_compile() -> None:
    result = check(script("add[(1,)](*POINTERS, 9, XBLOCK=8)\nbroken[(1,)](*POINTERS, 9, XBLOCK=8)"))
    assert result.exit_code == 1, result.stderr
    assert "undefined_name" in result.stdout
    assert "2 compiles of 2 kernels, 1 failed" in result.stdout


def test_a_script_that_fails_keeps_what_it_had_recorded() -> None:
    result = check(
        "--format=json", script("add[(1,)](*POINTERS, 9, XBLOCK=8)\nassert 1 == 2, 'results differ'")
    )
    assert result.exit_code == 3
    (target,) = json.loads(result.stdout)["targets"]
    assert "AssertionError: results differ" in target["failure"]
    assert "bench.py:8" in target["failure"]
    assert "no launch was executed" in target["failure"]
    assert len(target["compiles"]) == 1


def test_a_script_that_dies_keeps_what_it_had_recorded() -> None:
    body = "add[(1,)](*POINTERS, 9, XBLOCK=8)\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    result = check("--format=json", script(body))
    assert result.exit_code == 3
    (target,) = json.loads(result.stdout)["targets"]
    assert target["failure"].startswith("killed by signal 9")
    assert len(target["compiles"]) == 1


@pytest.mark.parametrize(
    ("body", "told"),
    [("sys.exit(4)", "exited with 4"), ("import no_such_thing", "No module named 'no_such_thing'")],
)
def test_why_a_target_failed(body: str, told: str) -> None:
    result = check(script(body))
    assert result.exit_code == 3
    assert told in result.stdout


def test_a_module_that_does_not_exist() -> None:
    result = check("no_such_module")
    assert result.exit_code == 3
    assert "No module named no_such_module" in result.stdout


def test_leaks_are_told_and_may_fail_the_check() -> None:
    leaky = script(
        "triton.compile(source(multibuffer=False, auto_blockify_size=2), target=current_session().target)"
    )
    soft, hard = check("--format=json", leaky), check("--leaks=error", leaky)
    assert soft.exit_code == 0, soft.output
    (record,) = compiles(soft)
    assert [(key["key"], key["outcome"]) for key in record["keys"]] == [
        ("multibuffer", "delivered"),
        ("auto_blockify_size", "ignored"),
    ]
    assert hard.exit_code == 1
    assert "multibuffer=False: moved to the options from the constants" in hard.stdout


def test_an_option_that_gets_lost_is_a_leak() -> None:
    lost = script("triton.compile(source(), target=current_session().target, options={'waves_per_eu': 2})")
    assert check("--leaks=error", lost).exit_code == 1


def test_a_pytest_command() -> None:
    Path("test_kernels.py").write_text(
        PREAMBLE + "def test_it():\n    add[(1,)](*POINTERS, 9, XBLOCK=8)\n    assert sys.argv\n"
    )
    result = check("--format=json", "pytest", "-q", "-p", "no:cacheprovider", "test_kernels.py")
    assert result.exit_code == 0, result.stderr
    assert [each["kernel"] for each in compiles(result)] == ["add"]


def test_a_pytest_command_that_finds_no_tests() -> None:
    result = check("pytest -q -p no:cacheprovider")
    assert result.exit_code == 3
    assert "nothing was compiled" in result.stdout


def test_overflows_with_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "tools")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path / 'tools'}{os.pathsep}{os.environ['PATH']}")
        # The children look for the package too; there it must not be found either.
        (tmp_path / "project" / "sitecustomize.py").write_text(
            "import importlib.util as u\n"
            "find = u.find_spec\n"
            "u.find_spec = lambda name, *rest: None if name == 'ascendnpuir' else find(name, *rest)\n"
        )
        patch.setenv("PYTHONPATH", f"{tmp_path / 'project'}{os.pathsep}{ROOT}")
        patch.setattr("triton_ascend_compat.offline.hivm.find_tools", lambda: tmp_path / "tools")
        result = check(
            "--hivm", "--format=github", script("add.warmup(*POINTERS, 9, XBLOCK=32768, grid=(1,))")
        )
    assert result.exit_code == 1, result.stderr
    assert (
        "needs 2097152 bits, 1572864 available; of what was tried, this fits: XBLOCK=16384" in result.stdout
    )


def test_a_report_goes_to_a_file() -> None:
    result = check(
        "--format=junit", "--output=report.xml", script("add.warmup(*POINTERS, 9, XBLOCK=8, grid=(1,))")
    )
    assert result.exit_code == 0, result.stderr
    assert Path("report.xml").read_text().startswith("<?xml")
    assert "1 compiles of 1 kernels, 0 failed" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--chip=Ascend910B7", "x"], "unknown chip 'Ascend910B7'"),
        (["--chip=", "x"], "unknown chip ''"),
        (["no_such.py"], "no such script: no_such.py"),
        (["--frobnicate"], "No such option"),
        (["-"], "'-' is neither a script, a module nor a pytest command"),
        ([], "a TARGET is missing"),
        (["--shard=5/4", "x"], "--shard 5/4"),
        (["-m", "a-b"], "'a-b' is no name of a module"),
        (["."], ". is a folder without a __main__.py"),
        (["'x"], "cannot be split"),
        (["--output=none/x", "x"], "cannot write none/x"),
        (["--output=bench.py", "bench.py"], "would overwrite a target"),
        (["--cache=bench.py/x", "x"], "--cache bench.py/x"),
        (["--merge", "no_such.json"], "cannot read no_such.json"),
        (["book.ipynb"], "book.ipynb is a notebook"),
        (["--merge", "bench.py"], "bench.py is no JSON report"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], told: str) -> None:
    script("")
    Path("book.ipynb").write_text("{}")
    result = check(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert len((result.stderr + result.stdout).splitlines()) == 1
    assert Path("bench.py").read_text() == PREAMBLE


def test_hivm_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "run_jobs", None)
        patch.setattr("importlib.util.find_spec", lambda name: None)
        patch.setenv("PATH", "/nonexistent")
        result = check("--hivm", script(""))
    assert result.exit_code == 2
    assert "pip install 'ascendnpu-ir>=" in result.stderr


def test_targets_from_words(tmp_path: Path) -> None:
    spaced = Path("a script.py")
    spaced.touch()
    assert parse_targets(["pytest", "-k", "add"]) == [Target("pytest", "pytest", ("-k", "add"))]
    assert parse_targets(["a.b --x 'y z'", "a script.py", "pytest -q"]) == [
        Target("module", "a.b", ("--x", "y z")),
        Target("script", "a script.py"),
        Target("pytest", "pytest", ("-q",)),
    ]
    assert module("pytest", ["-q"]) == Target("pytest", "pytest", ("-q",))
    with pytest.raises(BadTarget, match="empty"):
        parse_targets([" "])
