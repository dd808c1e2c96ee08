"""What tests compile in threads, and in processes that they start, counts as what they compile themselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.checking.test_check import check
from tests.offline.test_hivm import REAL
from tests.offline.test_pytest_plugin import ROOT, TESTS
from tests.offline.test_pytest_plugin import run as run
from triton_ascend_compat.checking import jobs

PREAMBLE = """
import concurrent.futures, multiprocessing, os, subprocess, sys, threading
from tests.offline.kernels import wide_only

def launch(size, **more):
    wide_only[(1,)](*POINTERS, 9, XBLOCK=size, **more)

def caught(size):
    try:
        launch(size)
    except Exception:
        pass

def started(context, target, size):
    process = multiprocessing.get_context(context).Process(target=target, args=[size])
    process.start()
    process.join()

class Own(multiprocessing.get_context("fork").Process):
    def run(self):
        launch(SIZE)

def pooled(pool, size):
    with pool(1) as workers:
        workers.submit(launch, size).result()

def python(*words, **more):
    subprocess.run([sys.executable, *words, "-c", f"import test_it; test_it.launch({SIZE})"], **more)

SIZE = 64
"""

#: How a test may start it; whether the child's end is all that becomes of the error.
STARTS = {
    "subprocess": ("python()", True),
    "spawn": ("started('spawn', launch, SIZE)", True),
    "fork": ("started('fork', launch, SIZE)", True),
    "fork, caught": ("started('fork', caught, SIZE)", False),
    "spawn, caught": ("started('spawn', caught, SIZE)", False),
    "own class": ("p = Own(); p.start(); p.join()", True),
    "thread": ("t = threading.Thread(target=launch, args=[SIZE]); t.start(); t.join()", True),
    "thread, caught": ("t = threading.Thread(target=caught, args=[SIZE]); t.start(); t.join()", False),
    "pool": ("expect(pooled, concurrent.futures.ProcessPoolExecutor, SIZE)", False),
    "threads": ("expect(pooled, concurrent.futures.ThreadPoolExecutor, SIZE)", False),
    "os.fork": ("os.fork() and os.wait() or (caught(SIZE), os._exit(0))", False),
}
EXPECT = """
def expect(call, *arguments):
    if SIZE == 64:
        return call(*arguments)
    with pytest.raises(Exception, match="at least 64"):
        call(*arguments)
"""


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `check pytest` on tests, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def checked(tests: str, *options: str) -> Any:
        Path("test_it.py").write_text(TESTS + tests)
        return check(*options, "pytest", "-p", "no:cacheprovider", "test_it.py")

    return checked


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("size", [64, 32])
def test_it_is_told_and_judged(run: Any, start: str, size: int) -> None:
    body, alone = STARTS[start]
    done = run(
        f"{PREAMBLE.replace('SIZE = 64', f'SIZE = {size}')}{EXPECT}\ndef test_it():\n    {body}\n",
        "--ascend-offline",
        "-W",
        "ignore",
    )
    failed = size == 32
    assert f"Ascend910B2: 1 compiles of 1 kernels, {int(failed)} failed" in done.stdout, done.stdout
    assert done.returncode == (failed and alone), done.stdout
    if failed and alone:
        told = r"where nothing waits for the error:\nwide_only \[XBLOCK=32\].*at least 64"
        assert re.search(told, done.stdout), done.stdout


def test_a_key_that_was_left_out_there_counts(run: Any) -> None:
    tests = f"{PREAMBLE}\ndef leak(size): launch(size, auto_blockify_size=2)\n" + "".join(
        f"def test_{context}():\n    started('{context}', leak, 64)\n" for context in ("fork", "spawn")
    )
    assert run(tests, "--ascend-offline", "-W", "ignore").returncode == 0
    done = run(tests, "--ascend-offline", "--ascend-leaks=error", "-W", "ignore")
    assert "2 failed" in done.stdout
    assert done.stdout.count("auto_blockify_size=2") >= 2


def test_a_process_in_which_nothing_is_recorded_is_told(run: Any) -> None:
    done = run(f"{PREAMBLE}\ndef test_it():\n    python('-I')\n", "--ascend-offline")
    assert "a child process ran outside of the check: " in done.stdout, done.stdout


def test_each_test_has_its_own_and_the_environment_comes_back(run: Any, tmp_path: Path) -> None:
    done = run(
        f"{PREAMBLE}\nbefore = dict(os.environ)\n"
        "@pytest.mark.ascend_offline\ndef test_one():\n    python(check=True)\n"
        "@pytest.mark.ascend_offline(chip='Ascend910_9589')\ndef test_two():\n    python(check=True)\n"
        "def test_plain():\n    assert dict(os.environ) == {**before, 'PYTEST_CURRENT_TEST': os.environ["
        "'PYTEST_CURRENT_TEST']}\n",
        "--ascend-records=records.jsonl",
    )
    assert "3 passed" in done.stdout, done.stdout
    assert "Ascend910B2: 1 compiles of 1 kernels, 0 failed" in done.stdout
    assert "Ascend910_9589: 1 compiles of 1 kernels, 0 failed" in done.stdout
    lines = (tmp_path / "project" / "records.jsonl").read_text().splitlines()
    assert sum('"record"' in line for line in lines) == 2


COMPARES = "    y = numpy.zeros(8, 'float32')\n    add[(1,)](y, y, y, 8, XBLOCK=8{})\n    assert y[0] == 2\n"


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        (COMPARES.format(""), False),
        (COMPARES.format(", auto_blockify_size=2"), True),
        ("    started('fork', launch, 32)\n" + COMPARES.format(""), True),
    ],
)
def test_what_is_wrong_otherwise_is_no_skip(run: Any, body: str, failed: bool) -> None:
    tests = f"{PREAMBLE}\nimport numpy\ndef test_it():\n{body}"
    done = run(tests, "--ascend-offline", "--ascend-leaks=error", "-W", "ignore")
    assert ("1 failed" if failed else "1 skipped") in done.stdout, done.stdout


@pytest.mark.parametrize(("compared", "ended"), [("y[0] == 2", "1 skipped"), ("1 == 2", "1 failed")])
def test_a_process_that_compares_results_makes_a_skip(run: Any, compared: str, ended: str) -> None:
    tests = (
        f"{PREAMBLE}\nimport numpy\ndef inside():\n    y = numpy.zeros(8, 'float32')\n"
        f"    add[(1,)](y, y, y, 8, XBLOCK=8)\n    assert {compared}\n"
        "def test_it():\n"
        "    subprocess.run([sys.executable, '-c', 'import test_it; test_it.inside()'], check=True)\n"
    )
    done = run(tests, "--ascend-offline")
    assert ended in done.stdout, done.stdout


def test_a_tuner_in_a_thread_skips_what_it_is_there_to_skip(run: Any) -> None:
    tests = (
        f"{PREAMBLE}\nfrom tests.offline.kernels import tuned\ndef test_it():\n"
        "    tuner = tuned([32, 64], fn=wide_only)\n"
        "    t = threading.Thread(target=lambda: tuner[(1,)](*POINTERS, 9)); t.start(); t.join()\n"
    )
    done = run(tests, "--ascend-offline")
    assert "1 passed" in done.stdout, done.stdout
    assert "ruled out wide_only" in done.stdout


def test_a_forked_process_tells_as_much_as_a_spawned_one(run: Any) -> None:
    tests = (
        f"{PREAMBLE}\ndef crash(_):\n"
        "    triton.compiler.compiler.ast_to_ttir = lambda *_, **__: os.abort()\n    launch(64)\n"
        "def lose(_):\n    triton.Config({}, auto_blockify_size=2)\n"
        "def isolate(_):\n    subprocess.run([sys.executable, '-I', '-c', ''])\n"
        "def test_crash(): started('fork', crash, 0)\n"
        "def test_lose(): started('fork', lose, 0)\n"
        "def test_isolate(): started('fork', isolate, 0)\n"
    )
    done = run(tests, "--ascend-offline", "--ascend-leaks=error", "-W", "ignore", "-rA")
    assert "the process ended while this was compiled" in done.stdout, done.stdout
    for name, ended in (("crash", "FAILED"), ("lose", "FAILED"), ("isolate", "PASSED")):
        assert f"{ended} test_it.py::test_{name}" in done.stdout, done.stdout
    assert "a child process ran outside of the check: " in done.stdout


def test_what_a_process_for_several_tests_compiles_fails_the_run(run: Any) -> None:
    tests = (
        f"{PREAMBLE}\ndef test_one():\n    started('forkserver', launch, 64)\n"
        "def test_two():\n    started('forkserver', launch, 32)\n"
    )
    done = run(tests, "--ascend-offline")
    assert "in a process whose test had ended: wide_only [XBLOCK=32]" in done.stdout, done.stdout
    assert done.returncode == 1


def test_a_pytest_inside_counts(run: Any) -> None:
    tests = (
        f"{PREAMBLE}\ndef test_inner():\n    launch(32 if 'INNER' in os.environ else 64)\n"
        "def test_outer():\n"
        "    if 'INNER' not in os.environ:\n"
        "        words = [*sys.orig_argv[1:], '-k', 'test_inner']\n"
        "        subprocess.run([sys.executable, *words], env={**os.environ, 'INNER': '1'})\n"
    )
    done = run(tests, "--ascend-offline")
    assert "2 compiles of 1 kernels, 1 failed" in done.stdout, done.stdout


def test_check_ends_and_tells_what_a_test_leaves_running(checked: Any) -> None:
    tests = (
        f"{PREAMBLE}\nWORDS = [sys.executable, '-c', 'import time; time.sleep(61.5)']\n"
        "def test_it():\n    launch(64)\n    subprocess.Popen(WORDS, start_new_session=True)\n"
    )
    result = checked(tests)
    assert "time.sleep(61.5) (still running when the target ended)" in result.stdout
    commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
    assert not [each for each in commands if b"time.sleep(61.5)" in each]


@pytest.mark.skipif(not REAL, reason="ascendnpu-ir (160 MB) is not installed")
def test_what_processes_computed_counts_once(checked: Any) -> None:
    tests = (
        f"{PREAMBLE}\nimport numpy\ndef compute(_):\n    y = numpy.zeros(8, 'float32')\n"
        "    add[(1,)](y, y, y, 8, XBLOCK=8)\n"
        "def test_it():\n    compute(0)\n    started('spawn', compute, 0)\n"
    )
    result = checked(tests, "--execute", "--format=json")
    (told,) = json.loads(result.stdout)["targets"]
    assert (told["execution"]["computed"], told["launches"]) == (2, 2)


def test_a_compile_that_goes_on_is_no_failure(run: Any) -> None:
    tests = (
        f"{PREAMBLE}\nimport time\ndef slowly():\n"
        "    def slow(*_, **__):\n        open('begun', 'w').close(); time.sleep(5)\n"
        "    triton.compiler.compiler.ast_to_ttir = slow\n    launch(64)\n"
        "def test_it():\n"
        "    subprocess.Popen([sys.executable, '-c', 'import test_it; test_it.slowly()'], stderr=-3)\n"
        "    while not os.path.exists('begun'): time.sleep(0.05)\n"
    )
    done = run(tests, "--ascend-offline", "-W", "ignore")
    assert "1 passed" in done.stdout, done.stdout


def test_workers_of_xdist(run: Any) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    tests = f"{PREAMBLE.replace('SIZE = 64', 'SIZE = 32')}\ndef test_it():\n    started('fork', launch, 32)\n"
    done = run(tests, "--ascend-offline", "-n1", "-p", "xdist")
    assert "1 failed" in done.stdout, done.stdout
    assert "1 compiles of 1 kernels, 1 failed" in done.stdout


def test_check_is_told_of_it_too(checked: Any) -> None:
    tests = (
        f"{PREAMBLE}\ndef leak(size):\n    launch(size)\n"
        "    triton.Config({}, auto_blockify_size=2)\n"
        "def test_it():\n    started('fork', leak, 64)\n    started('spawn', leak, 64)\n    python()\n"
    )
    result = checked(tests, "--format=json")
    (told,) = json.loads(result.stdout)["targets"]
    assert [(each["kernel"], each["config"]) for each in told["compiles"]] == [
        ("wide_only", {"XBLOCK": 64})
    ] * 3
    assert told["launches"] == 2  # a forked process does not count
    assert {key["fate"]["key"] for key in told["config_keys"]} == {"auto_blockify_size"}


def test_a_process_that_outlives_the_run_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = jobs.Job(jobs.Target("pytest", "pytest"), "Ascend910B2")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    environment = job.environment(tmp_path / "gone" / "0.jsonl")
    code = "import triton, tests.offline.kernels; print('fine')"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("fine\n", "")
