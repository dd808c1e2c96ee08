"""Kernels that nobody here wrote, compiled offline as they stand: writes docs/offline-corpus.md.

    make corpus

The corpus is data: `corpus/operators.json` lists packages and their operators, `corpus/operators.py` calls
them, `corpus/injected.py` does so with options among the constants. `triton-ascend-compat check` runs both,
and this renders what it tells. What a compiler refuses is a result.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_ascend_compat.checking.jobs import Outcome
from triton_ascend_compat.checking.reports import error_of_many, sizes_needed
from triton_ascend_compat.decision import plan
from triton_ascend_compat.offline.records import CompileRecord

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "benchmarks" / "corpus"
PAGE = ROOT / "docs" / "offline-corpus.md"
PACKAGES = tuple(json.loads((CORPUS / "operators.json").read_text()))
INJECTED = ("multibuffer", "auto_blockify_size", "multibufer")
CHIPS = ("Ascend910B2", "Ascend910_9589")


def check(script: str, folder: Path, *options: str) -> list[Outcome]:
    """What `check` tells of a script, run for each package; its progress is shown."""
    print(f"check {' '.join(options)}: {script} for {', '.join(PACKAGES)}", flush=True)
    report = folder / "report.json"
    targets = [f"{CORPUS / script} {package}" for package in PACKAGES]
    words = ["check", *options, f"--jobs={os.cpu_count()}", "--format=json", f"--output={report}", *targets]
    command = [sys.executable, "-m", "triton_ascend_compat", *words]
    # Its exit code is not 0, as some kernels do not compile; what it prints of these is in the report.
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace") as running:
        for line in running.stderr or ():
            if not line.startswith("| "):
                print(f"  {line}", end="", flush=True)
    outcomes = [Outcome.from_dict(each) for each in json.loads(report.read_text())["targets"]]
    for outcome in outcomes:
        if outcome.failure is not None or outcome.empty:
            raise SystemExit(f"{outcome.job.label}: {outcome.failure or 'no compiles'}\n{outcome.output}")
    return outcomes


def main() -> None:
    """Run all, and write the page."""
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    with tempfile.TemporaryDirectory(prefix="corpus-") as name:
        folder = Path(name)
        os.environ["FLAGGEMS_CACHE_DIR"] = f"{folder}/flaggems"  # else it writes into the home folder
        options = f"--cache={folder}/cache", f"--chip={','.join(CHIPS)}"
        modes: list[tuple[str, ...]] = [options, (*options, "--hivm")]
        compiled = [outcome for mode in modes for outcome in check("operators.py", folder, *mode)]
        again = [outcome for mode in modes for outcome in check("operators.py", folder, *mode)]
        injected = check("injected.py", folder, f"--chip={CHIPS[0]}")
    names = ("triton-ascend", "ascendnpu-ir", "torch", *PACKAGES)
    versions = ", ".join(f"{each} {importlib.metadata.version(each)}" for each in names)
    PAGE.write_text(page(compiled, again, injected, versions), encoding="utf-8")
    print(f"wrote {PAGE}")


def page(
    compiled: Sequence[Outcome], again: Sequence[Outcome], injected: Sequence[Outcome], versions: str
) -> str:
    """The page, in Markdown: of each package, chip and mode; of the same once more; of `injected.py`."""
    kernels = sorted({key for outcome in compiled for key in _kernels(outcome)})
    summary = _table("package", _columns(compiled), {p: _counts(compiled, p) for p in PACKAGES})
    return (
        (CORPUS / "page.md")
        .read_text()
        .format(
            versions=versions,
            kernels=len(kernels),
            packages=len(PACKAGES),
            summary=summary,
            reasons="\n".join(_reasons(compiled)) or "Everything compiled.",
            stopped="\n".join(_stopped(compiled)) or "None.",
            injected=_injected(injected),
            speed=_speed(compiled, again),
            every=_every(compiled, kernels),
        )
    )


def _package(outcome: Outcome) -> str:
    return outcome.job.target.arguments[0]


def _column(outcome: Outcome) -> str:
    return f"{outcome.job.chip} {'HIVM' if outcome.job.hivm else 'linalg'}"


def _columns(outcomes: Iterable[Outcome]) -> list[str]:
    return list(dict.fromkeys(map(_column, outcomes)))


def _table(first: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [[first, *columns], ["---"] * (first.count("|") + 1 + len(columns))]
    lines += [[name, *cells] for name, cells in rows.items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _kernels(outcome: Outcome) -> dict[tuple[str, str, str], list[CompileRecord]]:
    """The records by package, file below site-packages and kernel. FlagGems writes some files itself."""
    found: dict[tuple[str, str, str], list[CompileRecord]] = {}
    for record in outcome.records:
        _, at, file = (record.location or "").rpartition(":")[0].partition("site-packages/")
        key = _package(outcome), file if at else "(generated)", record.kernel
        found.setdefault(key, []).append(record)
    return found


def _counts(outcomes: Iterable[Outcome], package: str) -> list[str]:
    cells = []
    for outcome in outcomes:
        if _package(outcome) == package:
            kernels = _kernels(outcome).values()
            whole = sum(all(record.ok for record in records) for records in kernels)
            configs = f"{sum(record.ok for record in outcome.records)} of {len(outcome.records)} configs"
            cells.append(f"{whole} of {len(kernels)} kernels whole, {configs}")
    return cells


def _reasons(outcomes: Iterable[Outcome]) -> list[str]:
    """A line for each kernel and kind of failure."""
    found: dict[tuple[str, str, str], list[tuple[str, CompileRecord]]] = {}
    for outcome in outcomes:
        for record in outcome.records:
            if not record.ok:
                key = record.kernel, _package(outcome), error_of_many(record)
                found.setdefault(key, []).append((_column(outcome), record))
    return [
        f"- `{kernel}` ({package}): {_shown(error + sizes_needed([record for _, record in failures]))} "
        f"({len(failures)} configs: {', '.join(dict.fromkeys(column for column, _ in failures))})"
        for (kernel, package, error), failures in sorted(found.items())
    ]


def _stopped(outcomes: Iterable[Outcome]) -> list[str]:
    """A line for each operator that `operators.py` tells of, with what was printed before."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        lines = [line for line in outcome.output.splitlines() if not line.startswith("[WARNING]")]
        for before, line in zip(["", *lines], lines):
            if line.startswith("stopped: "):
                told = f"- {line.removeprefix('stopped: ')}: {_shown(before[-300:])}"
                found.setdefault(told, []).append(_column(outcome))
    return [f"{told} ({', '.join(columns)})" for told, columns in found.items()]


def _shown(text: str) -> str:
    """Text for Markdown, without the folders that a package, or a compiler's source, lies in."""
    words = [re.sub(r".*/(site-packages|llvm-project)/", "", word) for word in text.split()]
    return " ".join(words).replace("|", "\\|").replace("<", "&lt;")


def _injected(outcomes: Iterable[Outcome]) -> str:
    ways = ("kernels", "delivered", "left out", "refused", "otherwise")
    rows = {}
    for outcome in outcomes:
        became: dict[str, set[Any]] = {way: set() for way in ways}
        for kernel, records in _kernels(outcome).items():
            proper = [record for record in records if record.ok and not record.keys]
            became["kernels"] |= {kernel} if proper else set()
            for record in records:
                if any(fate.key in INJECTED and fate.where is plan.Where.CONSTANTS for fate in record.keys):
                    became[_became(record, proper)].add(kernel)
        rows[_package(outcome)] = [str(len(became[way])) for way in ways]
    return _table("package", ways, rows)


def _became(record: CompileRecord, proper: Iterable[CompileRecord]) -> str:
    """What became of the key among the constants: as it should be, if a proper compile has the same hash."""
    if "'multibufer' is not in list" in str(record.error):
        return "refused"
    outcomes = {fate.key: fate.outcome for fate in record.keys}
    same = [each.asked for each in proper if each.hash == record.hash]
    if outcomes.get("multibuffer") is plan.Outcome.DELIVERED:
        return "delivered" if any(asked.get("multibuffer") is False for asked in same) else "otherwise"
    return "left out" if outcomes.get("auto_blockify_size") is plan.Outcome.IGNORED and same else "otherwise"


def _speed(compiled: Sequence[Outcome], again: Sequence[Outcome]) -> str:
    rows = {}
    for first, second in zip(compiled, again):
        seconds = [sum(r.milliseconds for r in outcome.records) / 1e3 for outcome in (first, second)]
        cells = [f"{seconds[0]:.1f}", f"{seconds[1]:.2f}", f"{seconds[0] / seconds[1]:.0f}"]
        rows[f"{_package(first)}, {_column(first)}"] = [str(len(first.records)), *cells]
    return _table("package", ["configs", "first run", "second run", "times faster"], rows)


def _every(outcomes: Sequence[Outcome], kernels: Iterable[tuple[str, str, str]]) -> str:
    cells = {
        (kernel, _column(outcome)): f"{sum(record.ok for record in records)}/{len(records)}"
        for outcome in outcomes
        for kernel, records in _kernels(outcome).items()
    }
    columns = _columns(outcomes)
    rows = {
        f"{key[0]} | `{key[2]}` | {key[1]}": [cells.get((key, each), "-") for each in columns]
        for key in kernels
    }
    return _table("package | kernel | file", columns, rows)


if __name__ == "__main__":
    main()
