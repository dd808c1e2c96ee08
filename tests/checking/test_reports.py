"""The report formats, on records made by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from triton_ascend_compat.checking import reports
from triton_ascend_compat.checking.jobs import Job, Outcome, Target
from triton_ascend_compat.checking.verdict import Rules
from triton_ascend_compat.commands.check import FORMATS
from triton_ascend_compat.decision.plan import Fate, Where
from triton_ascend_compat.decision.plan import Outcome as KeyOutcome
from triton_ascend_compat.offline.records import CompileRecord, Memory, Overflow, StageTime


def record(**changes: Any) -> CompileRecord:
    values: dict[str, Any] = {
        "kernel": "add",
        "location": str(Path.cwd() / "kernels.py") + ":12",
        "chip": "Ascend910B2",
        "hivm": True,
        "signature": {"x": "*fp32"},
        "constexprs": {"XBLOCK": 64},
        "asked": {},
        "delivered": {},
        "config": {"XBLOCK": 64},
        "stages": (StageTime("ttir", 1.0), StageTime("ttadapter", 1.0), StageTime("npubin", 1.0)),
        "milliseconds": 3.0,
    }
    return CompileRecord(**{**values, **changes})


OVERFLOWED = record(
    constexprs={"XBLOCK": 128},
    config={"XBLOCK": 128},
    error="UB overflow: needs 20 bits, 15 available",
    error_type="MLIRCompilationError",
    detail="ub overflow\x00 <text> & more",
    overflow=Overflow("UB", 20, 15),
    fits={"XBLOCK": 64},
)
LEAKY = record(
    asked={"multibuffer": False, "waves_per_eu": 2},
    delivered={"multibuffer": False},
    keys=(Fate("multibuffer", False, Where.CONSTANTS, KeyOutcome.DELIVERED, "leaked"),),
)
RETRIED = record(notes=("UB overflow: compiled again with enable-auto-multi-buffer=false",))
JOB = Job(Target("script", "bench.py", ("--small", "two words")), "Ascend910B2")


def outcome(*records: CompileRecord, failure: str | None = None) -> Outcome:
    return Outcome(JOB, records, 3, failure, "the end of its output")


ALL = [outcome(record(), OVERFLOWED, LEAKY, RETRIED, failure="ValueError: no at bench.py:3")]


def test_the_table_has_a_line_per_config_and_says_that_nothing_ran() -> None:
    table = reports.as_table(ALL)
    assert "XBLOCK=128" in table
    assert "needs 20 bits, 15 available; of what was tried, this fits: XBLOCK=64" in table
    assert "multibuffer=False: moved to the options from the constants" in table
    assert "waves_per_eu=2: dropped by the backend" in table
    assert "bench.py --small 'two words' (Ascend910B2) failed: ValueError: no at bench.py:3" in table
    assert "4 compiles of 1 kernels, 1 failed" in table
    assert reports.NOT_EXECUTED in table


def test_the_table_shows_what_differs_between_configs() -> None:
    same = {"D": 128, "num_stages": 2}
    records = [
        record(config={**same, "XBLOCK": block}, error=text) for block, text in ((64, None), (128, "no"))
    ]
    lines = reports.as_table([outcome(*records)]).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["XBLOCK=64", "XBLOCK=128"]
    assert "D=128 num_stages=2 XBLOCK=64" in reports.as_table([outcome(*records[:1])])


def test_many_configs_are_few_lines() -> None:
    grid = [(rows, columns) for rows in range(1, 9) for columns in range(16, 240, 16)]
    records = [
        record(
            config={"ROWS": rows, "COLUMNS": columns},
            error="too wide" if columns == 96 else None,
            tuning="1.1",
            config_number=number,
            hash="one" if columns == 16 else str(number),
        )
        for number, (rows, columns) in enumerate(grid)
    ]
    lines = reports.as_table([outcome(*records)]).splitlines()
    assert len(lines) < 10
    (failed,) = [line for line in lines if "too wide" in line]
    assert "8 of 112: ROWS=1,2,3,4,5,6,7,8 COLUMNS=96" in failed
    assert "    tuning in vain: 8 candidates are one kernel: ROWS left out" in lines
    assert len(reports.as_github([outcome(*records)]).splitlines()) == 2


def test_what_compilers_are_asked_for_is_in_the_table() -> None:
    kinds = [{}, {"n": "== 1"}, {"n": "divisible by 16"}]
    records = [
        record(
            signature={"x": "*fp16" if number else "*fp32", "n": "i32", "m": "i32"},
            specialization={**granted, "m": "divisible by 16"},
            memory=(Memory("UB", 1024 * (number + 1), 196608),),
            delivered={"num_warps": 4},
        )
        for number, granted in enumerate(kinds)
    ]
    table = reports.as_table([outcome(*records)])
    assert "3 specializations: x: *fp32, *fp16; n == 1; n divisible by 16\n" in table
    assert "UB: 1,024 to 3,072 of 196,608 bytes used" in table
    assert "delivered, as is the default: num_warps=4" in table
    assert "  num_warps=4: delivered; in add\n" in reports.options_table([outcome(*records)])
    rules = Rules(most_specializations=2)
    for make in FORMATS.values():
        assert "has 3 specializations on Ascend910B2, 2 allowed" in make([outcome(*records)], rules)


ODD = "\x1b[31mred]]>|\x00\x07\x85\u2028\ufffe\ud800\r\n::error::planted"


def test_no_text_gets_out_of_its_place() -> None:
    odd = outcome(
        record(config={"MODE": ODD}, error=ODD, error_type=ODD, detail=ODD, notes=(ODD,), kernel=ODD),
        record(config={"MODE": ODD}, notes=(ODD,), asked={ODD: ODD}),
        failure=ODD,
    )
    odd = dataclasses.replace(odd, output=ODD, went_on=(f"{ODD}:1",), outside=(ODD,), stopped_at=f"{ODD}:2")
    for name, make in FORMATS.items():
        text = make([odd])
        assert all(c == "\n" or c.isprintable() for c in text), name
        assert not any(line.startswith("::error::planted") for line in text.splitlines()) or name == "junit"
    assert len(list(ElementTree.fromstring(reports.as_junit([odd])).iter("testcase"))) == 3
    assert json.loads(reports.as_json([odd]))["targets"][0]["output"] == ODD


def test_a_report_in_json_can_be_read_again() -> None:
    (target,) = json.loads(reports.as_json(ALL))["targets"]
    again = Outcome.from_dict(target)
    assert reports.as_table([again]) == reports.as_table(ALL)
    assert again.job == ALL[0].job


def test_json_holds_everything() -> None:
    data = json.loads(reports.as_json(ALL))
    (target,) = data["targets"]
    assert target["target"] == "bench.py --small 'two words'"
    assert target["failure"] == "ValueError: no at bench.py:3"
    assert target["launches_not_executed"] == 3
    assert [compile_["ok"] for compile_ in target["compiles"]] == [True, False, True, True]
    assert target["compiles"][1]["fits"] == {"XBLOCK": 64}
    assert target["compiles"][2]["keys"][0]["outcome"] == "delivered"
    assert data["executed"] is False
    assert data["summary"]["failed"] == 1


def test_junit_is_xml_with_a_case_per_config() -> None:
    suite = ElementTree.fromstring(reports.as_junit(ALL))[0]
    assert suite.attrib["tests"] == "5"
    assert suite.attrib["failures"] == suite.attrib["errors"] == "1"
    names = [case.attrib["name"] for case in suite]
    assert names[1] == "add[XBLOCK=128]"
    failure = suite[1].find("failure")
    assert failure is not None
    assert failure.text == r"ub overflow\x00 <text> & more"
    output = suite[2].find("system-out")
    assert output is not None
    assert "moved to the options from the constants" in str(output.text)


def test_github_annotations_stand_at_the_kernel_s_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    lines = reports.as_github(ALL).splitlines()
    assert lines[0].startswith("::error file=kernels.py,line=12,title=does not compile for Ascend::add")
    assert any(line.startswith("::warning file=kernels.py,line=12") for line in lines)
    assert any(line.startswith("::notice") and "compiled again" in line for line in lines)
    assert any(line.startswith("::error title=target failed::") for line in lines)


def test_github_annotations_stay_on_one_line() -> None:
    broken = record(error="first\nsecond 100%", error_type="E", location="/a,b:c.py:3")
    line = reports.as_github([outcome(broken)]).splitlines()[0]
    assert r"first\nsecond 100%25" in line
    assert "file=/a%2Cb%3Ac.py,line=3" in line


def test_nothing_compiled_is_said_too() -> None:
    for make in FORMATS.values():
        assert make([outcome(failure="exited with 1")])
    assert "0 compiles of 0 kernels" in reports.as_table([outcome(failure="exited with 1")])
