"""COMPATIBILITY.md is made of test results, and of nothing else."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MATRIX = runpy.run_path(str(Path(__file__).parent / "frontends" / "matrix.py"))
main, show, Cell, Notes = (MATRIX[name] for name in ("main", "show", "Cell", "Notes"))


def result(line, *cells, backend="stand-in", **versions):
    return {
        "line": line,
        "backend": backend,
        "python": "3.11.0",
        "raw_error": "'KEY' is not in list",
        "versions": versions,
        "date": "2026-11-30",
        "cells": [
            {"frontend": frontend, "what": what, "passed": passed, "failed": failed, "skipped": skipped}
            for frontend, what, passed, failed, skipped in cells
        ],
    }


def written(tmp_path, *results):
    folder, target = tmp_path / "results", tmp_path / "COMPATIBILITY.md"
    folder.mkdir()
    for number, each in enumerate(results):
        (folder / f"{number}.json").write_text(json.dumps(each))
    main([str(folder), str(target)])
    return target.read_text().splitlines()


def test_results_of_one_line_add_up(tmp_path):
    first = result("triton 1", ("compile", "delivered", 2, [], []), triton="1")
    second = result("triton 1", ("compile", "delivered", 3, [], ["no such backend"]), triton="1")
    other = result("triton 2", ("Gluon", "delivered", 1, [], []), triton="2")
    lines = written(tmp_path, first, second, other)
    assert "| compile | delivered | 5 [1] | – |" in lines
    assert "| Gluon | delivered | – | 1 |" in lines
    assert "1. no such backend" in lines


def test_a_failure_is_never_a_number(tmp_path, capsys):
    good = result("triton 1", ("compile", "delivered", 2, [], []))
    bad = result("triton 1", ("compile", "delivered", 9, ["test_it"], []))
    lines = written(tmp_path, good, bad)
    assert "| compile | delivered | **failed**: test_it |" in lines
    assert "1 failed cells" in capsys.readouterr().out


def test_torch_lines_have_a_table_of_their_own(tmp_path):
    plain = result("triton 1", ("compile", "delivered", 2, [], []), triton="1")
    torch = result("torch 2", ("Inductor", "delivered", 4, [], []), torch="2", triton="1")
    lines = written(tmp_path, plain, torch)
    assert "| Inductor | delivered | 4 |" in lines
    assert "| compile | delivered | 2 |" in lines
    assert any(line.startswith("| torch 2 | Python 3.11.0, torch 2, triton 1 |") for line in lines)


def test_a_python_has_a_row_with_what_pip_offers_to_it(tmp_path):
    other = result("triton 1", ("compile", "delivered", 2, [], []), triton="1")
    first = result("Python 3.11", ("compile", "delivered", 2, [], []), triton="1")
    second = result("Python 3.11", ("Gluon", "delivered", 3, [], ["none here"]), triton="1")
    offered = {"line": "Python 3.11", "offered": {"triton": "1", "torch": "2"}}
    lines = written(tmp_path, other, offered, first, second)
    assert "| 3.11.0 | – | 1 | 2 | – | triton 1 | 5 | 'KEY' is not in list |" in lines
    assert "| compile | delivered | 2 |" in lines


def test_the_pythons_of_the_classifiers_are_those_that_the_tests_passed_on():
    rows = re.findall(
        r"^\| (3\.\d+)\.\d+ \|.* \| (.*) \| .* \|$", (ROOT / "COMPATIBILITY.md").read_text(), re.M
    )
    declared = re.findall(
        r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    assert [python for python, passed in rows if passed.isdigit()] == declared


def test_nothing_to_show_is_one_line(tmp_path):
    with pytest.raises(SystemExit, match="no results"):
        main([str(tmp_path), str(tmp_path / "out.md")])
    assert not (tmp_path / "out.md").exists()


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, "–"),
        (Cell(passed=3), "3"),
        (Cell(skipped=["why"]), "– [1]"),
        (Cell(passed=1, failed=["b", "a", "a"]), "**failed**: a, b"),
    ],
)
def test_cells(cell, expected):
    assert show(cell, Notes()) == expected
