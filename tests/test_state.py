"""`status()`: what a leaked option meets now, and by whose doing; read from the world."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("triton")

import triton_ascend_compat
from tests.shapes import backend_shape
from triton_ascend_compat import fixes, shim

FIXES = [fix.name for fix in fixes.FIXES]


@pytest.fixture(autouse=True)
def _not_asked_yet(monkeypatch):
    triton_ascend_compat.disable()
    monkeypatch.setattr(shim, "switch", shim.Switch())
    yield
    triton_ascend_compat.disable()


def test_each_fix_says_why_how_where_and_until_when():
    for fix in triton_ascend_compat.status().fixes:
        assert all(len(text) > 20 for text in (fix.why, fix.how, fix.until)), fix
        assert fix.upstream.startswith("https://github.com/"), fix


def test_before_it_is_switched_on_they_are_off():
    assert {fix.off_because for fix in triton_ascend_compat.status().fixes} == {"the shim is not switched on"}


def test_a_backend_that_retired_the_folding_needs_no_folding_fix():
    with backend_shape("late-2026"):
        (folding,) = [f for f in triton_ascend_compat.enable().fixes if f.name == "folding"]
        assert folding.off_because.startswith("not needed")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_lists_them(as_json):
    arguments = [sys.executable, "-m", "triton_ascend_compat", "status", *["--json"] * as_json]
    printed = subprocess.run(arguments, capture_output=True, text=True, check=False).stdout
    if as_json:
        facts = json.loads(printed)
        assert [fix["name"] for fix in facts["fixes"]] == FIXES
        assert facts["data"] == dict.fromkeys(fixes.DATA, False)
    else:
        assert all(name in printed for name in FIXES)
