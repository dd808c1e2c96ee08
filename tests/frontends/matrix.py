"""Write COMPATIBILITY.md from the results of the tests.

    python matrix.py FOLDER FILE    # FOLDER holds what the sessions of noxfile.py wrote

A cell comes from tests that ran: how many passed, or what failed, or why nothing could be tried.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = """# Compatibility

<!-- Written by `make matrix` from test results. Do not edit. -->

What was tried, on which Triton, with what result. A number is the count of tests that passed. A dash means
that nothing was tried there: a number in brackets leads to the reason below the table, without one the row
is no part of that environment. Every test that shows a repair also shows the original error without the shim.

Real, as published: Triton (ASTSource, code generator, cache, JIT, autotuner, tools), triton-ascend 3.2.0 with
its backend, torch with Inductor, torch_npu with both of its heuristics modules, triton-runner, tritonparse.

Stand-ins: upstream Triton has no Ascend backend, so a small one of the tests takes its place there, with
options as triton-ascend 3.2.0, 3.2.1 and the backend of late 2026 have them; its "binary" is text.
triton-ascend's own backend compiles offline, to linalg. The device is a stand-in everywhere: nothing was
launched on an NPU and nothing was timed. torch_npu is imported with generated libraries in place of CANN's.
"""

PYTHONS = """## What each Python can run

The newest version that pip offers to each Python; a dash where it offers none. Where it offers triton-ascend,
the tests ran on that with its own backend, else on the newest upstream Triton with the stand-in. The error is
Triton's without the shim, for a leaked key KEY; the shim's own names the key on every Python.
"""
OFFERED = ("triton-ascend", "triton", "torch", "torch_npu")


@dataclass
class Cell:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


@dataclass
class Line:
    """One environment: its versions and, by (frontend, what was proven), what was found; of one that is there
    for its Python, the newest versions that pip offers to that."""

    name: str
    python: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    backends: list[str] = field(default_factory=list)
    date: str = ""
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    offered: dict[str, str] = field(default_factory=dict)
    raw_error: str = ""


def read(folder: Path) -> list[Line]:
    """The lines that `folder` holds results of; several files of a line are added up.

    Raises SystemExit with one line when there are none.
    """
    lines: dict[str, Line] = {}
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime):
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        line = lines.setdefault(result["line"], Line(result["line"]))
        if "offered" in result:
            line.offered = result["offered"]
            continue
        line.python, line.raw_error = result["python"], result["raw_error"]
        line.versions.update(result["versions"])
        line.backends.append(result["backend"])
        line.date = max(line.date, result["date"])
        for found in result["cells"]:
            cell = line.cells.setdefault((found["frontend"], found["what"]), Cell())
            cell.passed += found["passed"]
            cell.failed += found["failed"]
            cell.skipped += found["skipped"]
    if not lines:
        raise SystemExit(f"matrix: no results in {folder}; run the sessions of noxfile.py first")
    return sorted(lines.values(), key=lambda line: (line.name.startswith("triton-"), line.name))


class Notes:
    """Reasons, numbered in the order in which they come up."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def number(self, reason: str) -> int:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason) + 1


def show(cell: Cell | None, notes: Notes) -> str:
    if cell is None:
        return "–"
    if cell.failed:
        return "**failed**: " + ", ".join(sorted(set(cell.failed)))
    marks = ", ".join(str(notes.number(reason)) for reason in dict.fromkeys(cell.skipped))
    return (str(cell.passed) if cell.passed else "–") + (f" [{marks}]" if marks else "")


def table(lines: list[Line], rows_of: list[Line]) -> list[str]:
    """Columns are the environments, rows what was proven in `rows_of`."""
    rows = list(dict.fromkeys(key for line in rows_of for key in line.cells))
    rows.sort(key=lambda row: row[0])
    notes = Notes()
    text = [
        "| | proven | " + " | ".join(line.name for line in lines) + " |",
        "|---|---|" + "---|" * len(lines),
    ]
    shown = ""
    for frontend, what in rows:
        cells = [show(line.cells.get((frontend, what)), notes) for line in lines]
        text.append(f"| {frontend if frontend != shown else ''} | {what} | " + " | ".join(cells) + " |")
        shown = frontend
    text += [""] + [f"{number}. {reason}" for number, reason in enumerate(notes.reasons, start=1)]
    return text


def pythons(lines: list[Line]) -> list[str]:
    """A row for each Python: what pip offers to it, and what came of the tests there."""
    text = [
        "| Python | " + " | ".join(OFFERED) + " | tested on | passed | error |",
        "|---" * (len(OFFERED) + 4) + "|",
    ]
    for line in sorted(lines, key=lambda line: [int(part) for part in line.python.split(".") if part]):
        offered = " | ".join(line.offered.get(name, "–") for name in OFFERED)
        versions = ", ".join(f"{name} {version}" for name, version in line.versions.items())
        total = Cell(
            sum(cell.passed for cell in line.cells.values()),
            [name for cell in line.cells.values() for name in cell.failed],
        )
        text.append(f"| {line.python} | {offered} | {versions} | {show(total, Notes())} | {line.raw_error} |")
    return text


def environments(lines: list[Line]) -> list[str]:
    text = ["| environment | versions | backend for npu | tested |", "|---|---|---|---|"]
    for line in lines:
        versions = ", ".join(f"{name} {version}" for name, version in sorted(line.versions.items()))
        backends = "; ".join(dict.fromkeys(backend for backend in line.backends if backend != "none"))
        text.append(f"| {line.name} | Python {line.python}, {versions} | {backends} | {line.date} |")
    return text


def render(lines: list[Line]) -> str:
    for_python = [line for line in lines if line.offered]
    generations = [line for line in lines if "torch" not in line.name and line not in for_python]
    with_torch = [line for line in lines if "torch" in line.versions]
    parts = [HEAD]
    if generations:
        without_torch = [line for line in generations if line not in with_torch]
        parts += ["## Triton generations", "", *table(generations, without_torch or generations), ""]
    if with_torch:
        parts += ["## Frontends on torch", "", *table(with_torch, with_torch), ""]
    if for_python:
        parts += [PYTHONS, *pythons(for_python), ""]
    parts += [
        "## Environments",
        "",
        *environments(lines),
    ]
    return "\n".join(parts).rstrip() + "\n"


def main(arguments: list[str]) -> None:
    if len(arguments) != 2:
        raise SystemExit("usage: matrix.py FOLDER FILE")
    lines = read(Path(arguments[0]))
    Path(arguments[1]).write_text(render(lines), encoding="utf-8")
    failed = sum(bool(cell.failed) for line in lines for cell in line.cells.values())
    print(f"matrix: {len(lines)} environments, {failed} failed cells, written to {arguments[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
