"""`report()` and the summary at the end of a process: what became of keys, how often, and where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

import triton_ascend_compat
from triton_ascend_compat.decision.plan import Fate, Outcome, Where
from triton_ascend_compat.telling import tally
from triton_ascend_compat.telling.events import Event


@pytest.fixture(autouse=True)
def _fresh():
    tally.forget()
    yield
    tally.forget()


def tell(key, outcome=Outcome.IGNORED, kernel="add", value=2, location="k.py:3", where=Where.CONSTANTS):
    tally.count(Event(kernel, None, Fate(key, value, where, outcome, "why"), location))


def test_the_same_key_of_the_same_kernel_is_counted():
    for value in (2, 4, 8):
        tell("auto_blockify_size", value=value)
    tell("auto_blockify_size", kernel="mul")
    tell("multibuffer", Outcome.DELIVERED)
    report = triton_ascend_compat.report()
    assert [(row.fate.key, row.kernel, row.count) for row in report.rows] == [
        ("auto_blockify_size", "add", 3),
        ("auto_blockify_size", "mul", 1),
        ("multibuffer", "add", 1),
    ]
    assert [report.count(outcome) for outcome in Outcome] == [1, 4, 0, 0]


def test_it_is_data_and_text():
    tell("auto_blockify_size")
    tell("multibufer", Outcome.REFUSED, value=object)
    report = triton_ascend_compat.report()
    data = json.loads(json.dumps(report.as_dict()))
    assert (data["delivered"], data["ignored"], data["refused"]) == (0, 1, 1)
    assert [row["key"] for row in data["rows"]] == ["auto_blockify_size", "multibufer"]
    assert {row["where"] for row in data["rows"]} == {"constants"}
    first, *rows = str(report).splitlines()
    assert "0 moved, 1 left out, 1 refused" in first
    assert "auto_blockify_size=2 in the constants" in rows[0]
    assert "add at k.py:3" in rows[0]


def test_places_are_told_apart():
    for where in Where:
        tell("auto_blockify_size", where=where)
    rows = triton_ascend_compat.report().rows
    assert [(row.fate.where, row.count) for row in rows] == [(where, 1) for where in Where]
    assert (
        len({line.partition(" in ")[2] for line in str(triton_ascend_compat.report()).splitlines()[1:]}) == 5
    )


def test_threads_lose_no_count():
    threads = [threading.Thread(target=lambda: [tell("x") for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.count for row in tally.current().rows] == [2000]


SCRIPT = """
import warnings; warnings.simplefilter("ignore")
import triton_ascend_compat
from triton_ascend_compat.offline import offline
from tests.kernels import SIGNATURE, add_kernel
from triton.compiler import ASTSource, compile
triton_ascend_compat.enable()
with offline() as session:
    for size in (2, 4):
        source = ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64, "auto_blockify_size": size})
        compile(source, target=session.target)
"""


@pytest.mark.parametrize("value", [None, "0", "1"])
def test_the_summary_is_asked_for(tmp_path, value):
    pytest.importorskip("triton")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if value is not None:
        environment["TRITON_ASCEND_COMPAT_SUMMARY"] = value
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
    )
    if value != "1":
        assert done.stderr == ""
        return
    first, row = done.stderr.splitlines()
    assert "0 moved, 2 left out, 0 refused" in first
    assert "2x: auto_blockify_size=4 in the constants, add_kernel at" in row
    assert "kernels.py:" in row
