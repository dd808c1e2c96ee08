"""The commands `options` and `explain`, on the real triton-ascend 3.2.0 and on a stand-in."""

from __future__ import annotations

import json
import sys

import pytest

pytest.importorskip("triton")

from click.testing import CliRunner

import triton_ascend_compat
from tests.shapes import backend_shape
from triton_ascend_compat import generations, shim
from triton_ascend_compat.cli import main
from triton_ascend_compat.decision import plan
from triton_ascend_compat.decision.plan import Where
from triton_ascend_compat.decision.policy import read_installed


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for variable in ("TRITON_ASCEND_COMPAT_DISABLE", "TRITON_ASCEND_COMPAT_STRICT"):
        monkeypatch.delenv(variable, raising=False)


def run(*arguments, code=0):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


def rows(*arguments):
    return {row["name"]: row for row in json.loads(run("options", "--json", *arguments))}


class TestOptions:
    def test_it_lists_what_the_backend_accepts(self):
        installed = read_installed(generations.npu_backend_class())
        listed = rows()
        assert listed.keys() == installed.types.keys()
        for name, row in listed.items():
            assert row["type"] == installed.types[name]
            assert row["default"] == repr(installed.defaults[name])
            assert "3.2.0" in row["releases"]
            assert row["misplaced"]["outcome"] == "delivered"

    def test_the_table_marks_each_release(self):
        lines = run("options", "auto_blockify_size", "allowed_dot_input_precisions").splitlines()
        legend = next(line for line in lines if line.startswith("releases:"))
        assert "a 3.2.0, b release/3.2.x, c 3.2.1" in legend
        size, precisions = (
            next(line for line in lines if line.startswith(name)) for name in ("auto_", "allo")
        )
        assert "--cdefgh-(j)" in size
        assert "abcdefghij" in precisions
        assert "Tuple[str]" in precisions

    def test_names_may_be_of_other_releases_and_backends(self):
        listed = rows("auto_blockify_size", "waves_per_eu", "inter_cache_num")
        assert {row["misplaced"]["outcome"] for row in listed.values()} == {"ignored"}
        releases = listed["auto_blockify_size"]["releases"]
        assert {"3.2.1", "3.2.2", "main (2026-08)"} <= set(releases)
        assert "3.2.0" not in releases
        assert not any(row["installed"] for row in listed.values())

    def test_all_lists_those_too(self):
        assert {"auto_blockify_size", "waves_per_eu", "inter_cache_num", "multibuffer"} <= rows(
            "--all"
        ).keys()

    def test_each_says_its_kind_and_what_the_backend_sets_itself(self):
        names = ("vf_merge_level", "disable_fma", "enable_sync_block_lock", "arch", "waves_per_eu")
        listed = rows(*names)
        assert [listed[name]["kind"] for name in names] == ["tuning", "semantic", "semantic", "target", None]
        assert [name for name in names if listed[name]["needed"]] == ["enable_sync_block_lock"]
        assert listed["disable_fma"]["meaning"]
        assert listed["disable_fma"]["default"] == "False"  # of the releases that have it
        table = run("options", *names).splitlines()
        told = {line.split()[0]: line.split()[1:] for line in table if line.startswith(names)}
        assert [told[name][0] for name in names] == ["tuning", "semantic", "needed", "target", "-"]
        assert "--cdefgh[i][j]" in told["arch"]

    def test_a_retired_and_a_renamed_one(self):
        with backend_shape("late-2026", forgets_old_names=True):
            listed = rows("force_simt_only", "inter_cache_num")
            assert listed["inter_cache_num"]["misplaced"]["as"] == "buf_slot_num_of_crosscore"
            assert listed["force_simt_only"]["misplaced"]["as"] == "compile_mode"
        with backend_shape("late-2026"):
            assert "retires" in rows("auto_blockify_size")["auto_blockify_size"]["misplaced"]["reason"]
            assert {"auto_blockify_size", "multibuffer"} <= rows().keys()

    def test_the_table_is_for_people(self):
        table = run("options", "multibuffer", "auto_blockify_size")
        assert "triton-ascend 3.2.0" in table
        assert "not installed here" in table

    def test_a_name_that_nobody_knows(self):
        assert "nearest: multibuffer" in run("options", "multibufer", code=2)


class TestExplain:
    """What it says is what the decision says; that this is what happens, test_constants and others show."""

    @pytest.fixture(autouse=True)
    def _switched_off(self):
        triton_ascend_compat.disable()
        yield
        triton_ascend_compat.disable()

    @pytest.mark.parametrize(
        ("assignment", "code", "what", "why"),
        [
            ("multibuffer=False", 0, "is delivered", "installed backend"),
            ("multibuffer=true", 0, "is delivered", "installed backend"),
            ("compile_mode=simt_only", 0, "is delivered", "installed backend"),
            (
                "compile_mode=simd_simt_template",
                0,
                "is delivered as compile_mode='unstructured_in_simt'",
                "which spells this value 'unstructured_in_simt'",
            ),
            ("auto_blockify_size=4", 1, "is left out, with one warning", "3.2.1"),
            ("auto_blockify_size=None", 1, "without a warning: it asks for nothing", "3.2.1"),
            ("waves_per_eu=2", 1, "left out", "HIP"),
            ("multibufer=1", 1, "refused with an error", "multibuffer"),
            ("num_warps=2.5", 1, "refused", "takes int"),
            ("enable_sync_block_lock=True", 1, "refused", "can be wrong"),
        ],
    )
    def test_two_lines_a_place(self, assignment, code, what, why):
        triton_ascend_compat.enable()
        first, *lines = run("explain", assignment, code=code).splitlines()
        assert "triton-ascend 3.2.0" in first
        told, because = lines[::2], lines[1::2]
        assert [line.strip().partition(": ")[0] for line in told] == [f"in {where}" for where in Where]
        assert all(line.strip().startswith("because: ") for line in because)
        assert what in told[0]
        assert why in because[0]

    @pytest.mark.parametrize("where", list(Where))
    def test_the_json_is_the_decision(self, where):
        triton_ascend_compat.enable()
        for value in (False, "no"):
            facts = json.loads(CliRunner().invoke(main, ["explain", f"multibuffer={value}", "--json"]).output)
            fate = plan.judge("multibuffer", value, where, shim.switch.policy())
            told = facts["places"][where.value]
            assert (told["outcome"], told["reason"]) == (fate.outcome.value, fate.why)
            if where is Where.CONSTANTS:
                assert {**facts, **told} == facts

    def test_one_place(self):
        triton_ascend_compat.enable()
        told = run("explain", "auto_blockify_size=2", "--where", "launch", code=1)
        assert "in the launch: is left out" in told
        assert "constants" not in told

    def test_switched_off_it_says_what_triton_does(self):
        told = run("explain", "multibuffer=False", code=1)
        assert "in the constants: is left to Triton" in told
        assert "the shim is not active" in told

    def test_under_another_name(self):
        with backend_shape("late-2026", forgets_old_names=True):
            triton_ascend_compat.enable()
            assert "as buf_slot_num_of_crosscore=3" in run("explain", "inter_cache_num=3")
            assert json.loads(run("explain", "--json", "force_simt_only=true"))["arrives"] == [
                "'compile_mode'",
                "'simt_only'",
            ]

    def test_strict_mode_shows(self, monkeypatch):
        monkeypatch.setenv("TRITON_ASCEND_COMPAT_STRICT", "1")
        triton_ascend_compat.enable()
        assert "is refused with an error" in run("explain", "auto_blockify_size=4", code=1)

    def test_what_is_switched_off_shows(self, monkeypatch):
        monkeypatch.setenv("TRITON_ASCEND_COMPAT_DISABLE", "foreign,launch")
        triton_ascend_compat.enable()
        assert "refused with an error" in run("explain", "waves_per_eu=2", code=1)
        told = run("explain", "auto_blockify_size=2", "--where", "launch", code=1)
        assert "is left to Triton" in told
        assert "TRITON_ASCEND_COMPAT_DISABLE" in told

    @pytest.mark.parametrize("assignment", ["multibuffer", "=1"])
    def test_wrong_usage(self, assignment):
        assert "expected KEY=VALUE" in run("explain", assignment, code=2)


@pytest.mark.parametrize("command", [["options"], ["explain", "multibuffer=1"]])
class TestNothingToAsk:
    def test_no_triton(self, command, monkeypatch):
        monkeypatch.setitem(sys.modules, "triton", None)
        assert "triton cannot be imported" in run(*command, code=2)

    def test_no_npu_backend(self, command, monkeypatch):
        monkeypatch.setattr(generations, "npu_backend_class", lambda: None)
        assert "no backend for target npu" in run(*command, code=2)
