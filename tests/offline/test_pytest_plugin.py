"""The pytest plugin, in pytest runs of their own."""

from __future__ import annotations

import json
import os
import re
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
        "    assert 'triton_ascend_compat.checking.testing' not in sys.modules\n"
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


def test_a_worker_that_dies_takes_nothing_with_it(run: Any) -> None:
    tests = (
        "import os\n"
        "def test_one():\n    add[(1,)](*POINTERS, 9, XBLOCK=8, auto_blockify_size=2)\n"
        "def test_two():\n    os._exit(3)\n"
        "def test_three():\n    add[(1,)](*POINTERS, 9, XBLOCK=16)\n"
    )
    done = run(tests, *("--ascend-offline", "-pxdist", "-n1", "-W", "ignore"))
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "Ascend910B2: 2 compiles of 1 kernels" in done.stdout
    assert "auto_blockify_size=2" in done.stdout


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


TEARDOWN = """
@pytest.fixture
def launches_last(ascend_offline):
    yield
    add[(1,)](*POINTERS, 9, XBLOCK=8, auto_blockify_size=2)

def test_one(launches_last):
    pass

def test_two(ascend_offline):
    pass
"""


def test_a_teardown_answers_for_what_it_leaks(run: Any) -> None:
    done = run(TEARDOWN, "--ascend-leaks=error", "-W", "ignore")
    assert "2 passed, 1 error" in done.stdout, done.stdout
    assert "2 passed" in run(TEARDOWN, "-W", "ignore").stdout


COMPARES = """
import unittest
import numpy
from tests.offline.kernels import tuned, wide_only

def launch():
    x, y = numpy.ones(8, "float32"), numpy.zeros(8, "float32")
    add[(1,)](x, x, y, 8, XBLOCK=8)
    return x, y

def check(ok):
    assert ok

def test_skips_output():
    x, y = launch()
    assert (y == x + x).all()

def test_skips_what_was_made_of_it():
    x, y = launch()
    worst = abs(y - 2 * x).max()
    for _ in range(1):
        assert worst == 0

def test_skips_a_helper():
    x, y = launch()
    check(y[0] == 2)

def test_skips_a_library():
    numpy.testing.assert_allclose(launch()[1], 2.0)

def test_fails_before_a_launch():
    assert 1 == 2

def test_fails_numbers():
    x, y = launch()
    assert sorted([2, 1]) == [2, 1]

def test_fails_a_shape():
    x, y = launch()
    assert y.shape == (9,)

def test_fails_a_helper():
    x, y = launch()
    check(len("a") == 2)

def test_fails_records(ascend_offline):
    x, y = launch()
    records = ascend_offline.records
    assert records[0].kernel == "sub"

def test_fails_another_error():
    launch()
    raise ValueError

class Kept:
    def __init__(self):
        self.x, self.y = launch()

    def agrees(self):
        return (self.y == 2).all()

def test_skips_an_attribute():
    kept = Kept()
    assert kept.y[0] == 2

def test_skips_a_method():
    kept = Kept()
    assert kept.agrees()

class TestCase(unittest.TestCase):
    def setUp(self):
        self.x, self.y = launch()

    def test_skips_a_case(self):
        self.assertTrue((self.y == 2).all())

    def test_fails_a_case(self):
        self.assertEqual(1, 2)

    def test_fails_a_case_that_raises_nothing(self):
        with self.assertRaises(ValueError):
            launch()

def test_skips_where_a_config_was_ruled_out():
    x, y = numpy.ones(8, "float32"), numpy.zeros(8, "float32")
    tuned([32, 128], fn=wide_only)[(1,)](x, x, y, 8)
    assert (y == 2).all()

def test_fails_a_copy_made_before():
    x, y = numpy.ones(8, "float32"), numpy.zeros(8, "float32")
    before = x + 1
    add[(1,)](x, x, y, 8, XBLOCK=8)
    assert before.sum() == 99

def test_fails_a_name_bound_anew():
    found = launch()
    found = 3
    assert found == 4

def test_fails_what_was_bound_beside_it():
    found, number = launch(), 4
    assert number == 5

def test_skips_a_failure_by_hand():
    x, y = launch()
    if y[0] != 2:
        pytest.fail("wrong")

def test_skips_an_error_by_hand():
    x, y = launch()
    if y[0] != 2:
        raise ValueError("wrong")

def test_fails_an_error_by_hand():
    x, y = launch()
    if len(y) == 8:
        raise ValueError(f"wrong: {y}")

@pytest.fixture
def compared():
    x, y = launch()
    assert y[0] == 2

def test_skips_a_fixture(compared):
    pass

def test_skips_what_has_no_name_any_more():
    x, y = numpy.ones(8, "float32"), numpy.zeros(8, "float32")
    add[(1,)](x, x, y, 8, XBLOCK=8)
    y = y.astype("int32")
    assert y[0] == 2

def test_skips_what_a_pointer_in_memory_leads_to():
    x, y = numpy.ones(8, "int64"), numpy.zeros(8, "float32")
    x[0] = y.ctypes.data
    add[(1,)](x, x, x.copy(), 8, XBLOCK=8)
    assert y[0] == 2

class Unreadable(numpy.ndarray):  # stands in for a meta tensor, which has no values
    def reshape(self, *shape):
        raise NotImplementedError

def test_skips_beside_what_has_no_values():
    x, y = numpy.ones(8, "int64").view(Unreadable), numpy.zeros(8, "float32")
    add[(1,)](x, x, y, 8, XBLOCK=8)
    assert y[0] == 2

def test_fails_what_raises_nothing():
    x, y = launch()
    with pytest.raises(ValueError):
        add[(1,)](x, x, y, 8, XBLOCK=8)

def test_fails_a_number_bound_anew():
    x, y = launch()
    n = 8
    add[(1,)](x, x, y, n, XBLOCK=8)
    n = n + 1
    assert n == 5

def test_fails_in_one_line():
    x, y = launch(); assert y.shape == (9,), y

def test_skips_what_a_view_shows():
    base = numpy.zeros((2, 8), "float32")
    add[(1,)](base[0], base[0], base[1], 8, XBLOCK=8)
    assert base.sum() == 16

def test_skips_in_one_line():
    x, y = launch(); assert y[0] == 2

def test_skips_what_was_bound_again_of_itself():
    x, y = launch()
    y = y * 2
    assert y[0] == 4

@pytest.mark.parametrize("number", range(9))
def test_fails_what_reads_no_result(number):
    x, y = launch()
    kernel = add[(1,)](x, x, y, 8, XBLOCK=8)
    if number == 0:
        assert len(y) == 9
    elif number == 1:
        assert isinstance(y, list)
    elif number == 2:
        assert y is None
    elif number == 3:
        assert kernel.metadata.num_warps == 99
    elif number == 4:
        assert "no such text" in kernel.asm["ttir"]
    elif number == 5:
        numpy.testing.assert_allclose(y, numpy.ones(9))
    elif number == 6:
        numpy.testing.assert_array_equal(y, numpy.zeros((2, 9)))
    elif number == 7:
        assert y.nbytes == 1
    else:
        assert type(y) is list and y.itemsize
"""


def test_only_assertions_on_results_that_nothing_computed_are_skipped(run: Any) -> None:
    done = run(COMPARES, "--ascend-offline", "-rA")
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED test", "SKIPPED"))]
    assert all("test_fails" in line for line in told if line.startswith("FAILED"))
    assert "24 failed, 17 skipped" in done.stdout, done.stdout
    assert "1 compiles, no launch executed: there are no results to compare" in done.stdout


def test_a_failure_names_kernel_config_chip_and_line(run: Any) -> None:
    done = run(
        "from tests.offline.kernels import wide_only\n"
        "@pytest.mark.ascend_offline(chip=['Ascend910B2', 'Ascend910_9382'])\n"
        "def test_it():\n    wide_only[(1,)](*POINTERS, 9, XBLOCK=32)\n"
    )
    for chip in ("Ascend910B2", "Ascend910_9382"):
        told = rf"wide_only \[XBLOCK=32\] \S+kernels.py:\d+ on {chip}: .*at least 64 \(at \S+:\d+\)"
        assert re.search(rf"-+ Ascend offline -+\n{told}\n", done.stdout), done.stdout
        assert re.search(rf"^FAILED {told}$", done.stdout, re.MULTILINE)


def test_records_as_json_lines(run: Any, tmp_path: Path) -> None:
    run(OFFLINE, f"--ascend-records={tmp_path / 'records.jsonl'}")
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert sum("record" in line for line in lines) == 4
    assert sum(line.get("launches", 0) for line in lines) == 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--ascend-chip=Ascend910B7"], "unknown chip 'Ascend910B7'"),
        (["-o", "ascend_chips=Ascend910B7"], "unknown chip 'Ascend910B7'"),
        (["-o", "ascend_leaks=errors"], "ascend_leaks is one of warn, error, not 'errors'"),
        (["-o", "ascend_tuner_failures=some"], "ascend_tuner_failures is one of all, unexpected, none"),
        (["--ascend-records=missing/records.jsonl"], "cannot write"),
        (["--ascend-cache=test_it.py"], "cannot write"),
    ],
)
def test_a_setting_that_cannot_be_right_ends_the_run_at_once(
    run: Any, arguments: list[str], told: str
) -> None:
    done = run("def test_it(): pass\n", "--ascend-offline", *arguments)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "passed" not in done.stdout


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("chip='Ascend910B7'", "unknown chip 'Ascend910B7'"),
        ("chips=['Ascend910B2']", "takes chip and hivm, not chips"),
        ("'Ascend910B2', True, 3", "takes chip and hivm, not 3"),
        ("chip=[]", "a name or a list of names, not []"),
        ("hivm='yes'", "hivm is True or False, not 'yes'"),
    ],
)
def test_a_wrong_marker_ends_its_test_only(run: Any, given: str, told: str) -> None:
    done = run(
        f"@pytest.mark.ascend_offline({given})\ndef test_it(): pass\n"
        "@pytest.mark.ascend_offline('Ascend910B3')\n"
        "def test_chip(): assert current_session().chip == 'Ascend910B3'\n"
    )
    assert "1 passed, 1 error" in done.stdout, done.stdout
    assert told in done.stdout
    assert "Traceback" not in done.stdout


TUNED = """
from tests.offline.kernels import tuned, wide_only

def test_ruled_out():
    tuned([32, 128], fn=wide_only)[(1,)](*POINTERS, 9)

def test_absent():
    configs = [triton.Config({"XBLOCK": 128}), triton.Config({"XBLOCK": 64, "auto_blockify_size": 2})]
    triton.autotune(configs, key=[])(add)[(1,)](*POINTERS, 9)
"""


@pytest.mark.parametrize(
    ("policy", "counts"),
    [("all", "2 failed"), ("unexpected", "1 failed, 1 passed"), ("none", "2 passed")],
)
def test_what_a_tuner_went_on_without(
    run: Any, policy: str, counts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_ASCEND_COMPAT_STRICT", "1")
    done = run(TUNED, "--ascend-offline", f"--ascend-tuner-failures={policy}")
    assert counts in done.stdout, done.stdout
    assert ("a tuner went on without" in done.stdout) == (policy != "none")
    assert "add [XBLOCK=64 auto_blockify_size=2]" in done.stdout
    assert f"{'FAILED' if policy == 'all' else 'ruled out'} wide_only [XBLOCK=32" in done.stdout


def test_a_marked_test_leaves_the_process_as_it_was(run: Any) -> None:
    done = run(
        "import triton_ascend_compat\n"
        "@pytest.mark.ascend_offline\ndef test_marked(): assert triton_ascend_compat.status().active\n"
        "def test_after(): assert not triton_ascend_compat.status().active\n"
    )
    assert "2 passed" in done.stdout, done.stdout
