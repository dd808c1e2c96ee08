"""Lines in a script under `check`, and in a test under pytest, are judged alike."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checking.test_check import check, in_a_project
from tests.offline.stand_in_bishengir import install
from triton_ascend_compat.checking import verdict
from triton_ascend_compat.checking.jobs import Outcome

__all__ = ["in_a_project"]

PREAMBLE = """
import pytest, triton
import triton.language as tl
from tests.offline.kernels import add, tuned, wide_only
from triton_ascend_compat.offline import Pointer
POINTERS = [Pointer("fp32")] * 3

@triton.jit
def mistaken(x, y, out, n, XBLOCK: tl.constexpr):
    if XBLOCK == 128:
        tl.store(out, 1, no_such_argument=True)
    tl.store(out, 1)

"""

#: The lines, and whether they fail by each policy: all, unexpected, none.
CASES = {
    "static_assert": ("tuned([32, 128], fn=wide_only)[(1,)](*POINTERS, 9)", (1, 0, 0)),
    "in_a_second_run": (
        "tuner = tuned([32, 128], fn=wide_only)\n{0}tuner[(1,)](*POINTERS, 9)\n{0}tuner[(1,)](*POINTERS, 11)",
        (1, 0, 0),
    ),
    "all": ("tuned([16, 32], fn=wide_only)[(1,)](*POINTERS, 9)", (1, 1, 1)),
    "all_of_the_tuner": (
        "wide_only[(1,)](*POINTERS, 9, XBLOCK=64)\n{0}tuned([16, 32], fn=wide_only)[(1,)](*POINTERS, 9)",
        (1, 1, 1),
    ),
    "too_large": ("tuned([128, 32768])[(1,)](*POINTERS, 9)", (1, 0, 0)),
    "a_mistake": ("tuned([64, 128], fn=mistaken)[(1,)](*POINTERS, 9)", (1, 1, 1)),
    "untuned": ("wide_only[(1,)](*POINTERS, 9, XBLOCK=32)", (1, 1, 1)),
    "fine": ("tuned([64, 128])[(1,)](*POINTERS, 9)", (0, 0, 0)),
    "expected": (
        "with pytest.raises(Exception):\n{0}    wide_only[(1,)](*POINTERS, 9, XBLOCK=32)",
        (0, 0, 0),
    ),
}
POLICIES = ("all", "unexpected", "none")


@pytest.fixture(autouse=True)
def own_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_a_project: None) -> Iterator[None]:
    install(tmp_path / "tools")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path / "tools"), prepend=":")
        yield


@pytest.mark.parametrize("policy", [*POLICIES, None])
def test_pytest(policy: str | None) -> None:
    tests = [f"def test_{name}():\n    {lines.format('    ')}\n\n" for name, (lines, _) in CASES.items()]
    Path("test_it.py").write_text(PREAMBLE + "".join(tests))
    plugins = ("-p", "triton_ascend_compat.pytest_plugin", "-p", "no:cacheprovider")
    command = [
        sys.executable,
        "-m",
        "pytest",
        *plugins,
        "--ascend-offline",
        "--ascend-hivm",
        "-rA",
        "test_it.py",
    ]
    command += [] if policy is None else [f"--ascend-tuner-failures={policy}"]
    done = subprocess.run([*command, "-rA", "test_it.py"], capture_output=True, text=True, check=False)
    column = POLICIES.index(policy or "unexpected")
    for name, (_, fails) in CASES.items():
        assert f"{('PASSED', 'FAILED')[fails[column]]} test_it.py::test_{name}" in done.stdout, done.stdout


def test_check() -> None:
    scripts = []
    for name, (lines, _) in CASES.items():
        if name != "expected":  # a script has no such thing
            scripts.append(f"{name}.py")
            Path(scripts[-1]).write_text(PREAMBLE + lines.format("") + "\n")
    result = check("--hivm", "--format=json", "--output=report.json", *scripts)
    assert result.exit_code == 1, result.stderr
    for target in json.loads(Path("report.json").read_text())["targets"]:
        rules = [verdict.Rules(tuner_failures=policy) for policy in POLICIES]
        found = tuple(verdict.exit_code([Outcome.from_dict(target)], each) for each in rules)
        assert found == CASES[target["name"][:-3]][1], target


@pytest.mark.parametrize(("policy", "code"), [("all", 1), ("unexpected", 0), (None, 0)])
@pytest.mark.parametrize("words", [["script.py"], ["pytest", "-p", "no:cacheprovider", "test_it.py"]])
def test_the_option_of_check(words: list[str], policy: str | None, code: int) -> None:
    Path("script.py").write_text(PREAMBLE + CASES["static_assert"][0])
    Path("test_it.py").write_text(f"{PREAMBLE}def test_it():\n    {CASES['static_assert'][0]}\n")
    result = check(*([] if policy is None else [f"--tuner-failures={policy}"]), *words)
    assert result.exit_code == code, result.stdout
    assert ("FAILED CompileTime" in result.stdout, "ruled out CompileTime" in result.stdout) == (
        code,
        not code,
    )


def test_what_a_test_expects_not_to_compile_fails_no_check() -> None:
    Path("test_it.py").write_text(f"{PREAMBLE}def test_it():\n    {CASES['expected'][0].format('    ')}\n")
    result = check("pytest", "-p", "no:cacheprovider", "test_it.py")
    assert (result.exit_code, "expected CompileTime" in result.stdout) == (0, True), result.stdout
