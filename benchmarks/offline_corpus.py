"""Kernels that nobody here wrote, compiled offline as they stand: `make corpus`.

Runs operators of liger-kernel, fla-core and flag-gems for two chips, to linalg and to HIVM, and writes what
compiled, what did not and why into docs/offline-corpus.md. What a compiler refuses is a result.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_ascend_compat.checking.jobs import Job, Outcome, Target, run_jobs
from triton_ascend_compat.checking.reports import describe_config, describe_error
from triton_ascend_compat.offline.records import CompileRecord

ROOT = Path(__file__).resolve().parents[1]
RUN_CASES = ROOT / "benchmarks" / "corpus" / "run_cases.py"
PAGE = ROOT / "docs" / "offline-corpus.md"

LIBRARIES = {"liger": "liger-kernel", "fla_ops": "fla-core", "flag_gems_ops": "flag-gems"}
CHIPS = ("Ascend910B2", "Ascend910_9589")
MODES = {False: "linalg", True: "HIVM"}


@dataclass(frozen=True)
class Run:
    """One library for one chip in one mode: its records, and what its process told besides."""

    library: str
    chip: str
    hivm: bool
    outcome: Outcome
    told: dict[str, Any]

    @property
    def column(self) -> str:
        """The table column it fills."""
        return f"{self.chip} {MODES[self.hivm]}"


def main() -> None:
    """Run everything, twice, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offline-corpus-") as folder:
        os.environ["FLAGGEMS_CACHE_DIR"] = str(
            Path(folder) / "flaggems"
        )  # else it writes into the home folder
        first, first_seconds = run_all(arguments.workers, Path(folder), extras=False)
        print(f"first run: {first_seconds:.0f} s", flush=True)
        second, second_seconds = run_all(arguments.workers, Path(folder), extras=False)
        print(f"second run: {second_seconds:.0f} s", flush=True)
        extra, _ = run_all(1, Path(folder), extras=True)
    arguments.page.parent.mkdir(exist_ok=True)
    arguments.page.write_text(
        page(first, second, extra, (first_seconds, second_seconds), arguments.workers), encoding="utf-8"
    )
    print(f"wrote {arguments.page}")


class Progress:
    """Prints a line for each job that has ended, and none in between."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self.ended = jobs, 0

    def __call__(self, outcomes: Sequence[Outcome], compiles: int) -> None:
        """Called now and then with the outcomes so far, in the order in which they ended."""
        for outcome in outcomes[self.ended :]:
            self.ended += 1
            job = outcome.job
            what = f"{job.target.arguments[0]} for {job.chip}, {MODES[job.hivm]}"
            print(f"  {self.ended} of {self.jobs}: {what}; {compiles} compiles so far", flush=True)


def run_all(workers: int, folder: Path, extras: bool) -> tuple[list[Run], float]:
    """Run each library for each chip in each mode; also the seconds that all took together.

    With `extras` for the first chip only, and with what is measured and tried besides.
    """
    chips = CHIPS[:1] if extras else CHIPS
    plan = [(library, chip, hivm) for hivm in MODES for chip in chips for library in LIBRARIES]
    jobs, reports = [], []
    for number, (library, chip, hivm) in enumerate(plan):
        report = folder / f"{number}.json"
        reports.append(report)
        wanted = (() if hivm else ("injections",)) + ("speed",) if extras else ()
        target = Target("script", str(RUN_CASES), (library, str(report), *wanted))
        jobs.append(Job(target, chip, hivm, cache=str(folder / "cache")))
    started = time.perf_counter()
    print(f"compiling {len(LIBRARIES)} packages for {', '.join(chips)}: {len(jobs)} jobs", flush=True)
    outcomes = run_jobs(jobs, workers, Progress(len(jobs)))
    seconds = time.perf_counter() - started
    runs = []
    for (library, chip, hivm), outcome, report in zip(plan, outcomes, reports):
        if outcome.failure is not None:
            raise SystemExit(f"{library} for {chip}, {MODES[hivm]}: {outcome.failure}\n{outcome.output}")
        runs.append(Run(library, chip, hivm, outcome, json.loads(report.read_text())))
    return runs, seconds


def page(
    first: Sequence[Run],
    second: Sequence[Run],
    extra: Sequence[Run],
    seconds: tuple[float, float],
    workers: int,
) -> str:
    """The page, in Markdown."""
    kernels = sorted({key for run in first for key in kernels_of(run)})
    lines = [
        "# Real kernels, compiled offline",
        "",
        f"Written by `make corpus` on {datetime.date.today().isoformat()}; do not edit. "
        f"Python {platform.python_version()}, {versions()}.",
        "",
        f"{len(kernels)} kernels from {len(LIBRARIES)} packages, called through the packages' own operators, "
        "forward and backward, with every config of their own tuners. The packages are as published; "
        "`torch.npu` and the driver are stand-ins (`triton_ascend_compat.offline`), nothing was executed.",
        "",
        *summary_table(first),
        "",
        "## What did not compile, and why",
        "",
        *reasons(first),
        "",
        "## Operators that stopped before they launched all their kernels",
        "",
        "Errors of the library or of Triton's launch path, not of a compile.",
        "",
        *stopped(first),
        "",
        "## Options injected into the constants of these kernels",
        "",
        *injected(extra),
        "",
        "## Speed",
        "",
        *speed(first, second, extra, seconds, workers),
        "",
        "## Every kernel",
        "",
        *kernel_table(first, kernels),
    ]
    return "\n".join(lines) + "\n"


def kernels_of(run: Run) -> dict[tuple[str, str, str], list[CompileRecord]]:
    """The records of a run by library, file and kernel."""
    found: dict[tuple[str, str, str], list[CompileRecord]] = {}
    for record in run.outcome.records:
        found.setdefault((LIBRARIES[run.library], file_of(record.location), record.kernel), []).append(record)
    return found


def file_of(location: str | None) -> str:
    """The path below site-packages of the file that a location names; flag-gems also writes files itself."""
    path = (location or "-").rpartition(":")[0]
    return path.rpartition("site-packages/")[2] if "site-packages/" in path else "(generated)"


def versions() -> str:
    """The versions of what took part."""
    names = ("triton-ascend", "ascendnpu-ir", "torch", *LIBRARIES.values())
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def summary_table(runs: Sequence[Run]) -> list[str]:
    """Counts for each library and column."""
    columns = list(dict.fromkeys(run.column for run in runs))
    lines = [f"| package | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for library, package in LIBRARIES.items():
        cells = []
        for column in columns:
            records = [
                r
                for run in runs
                if (run.library, run.column) == (library, column)
                for r in run.outcome.records
            ]
            kernels = {(record.kernel, record.location) for record in records}
            whole = {key for key in kernels if all(r.ok for r in records if (r.kernel, r.location) == key)}
            configs = f"{sum(r.ok for r in records)} of {len(records)} configs"
            cells.append(f"{len(whole)} of {len(kernels)} kernels whole, {configs}")
        lines.append(f"| {package} | {' | '.join(cells)} |")
    return lines


def reasons(runs: Sequence[Run]) -> list[str]:
    """One line for each kernel and kind of failure, with the chips and an example config."""
    found: dict[tuple[str, str], list[tuple[str, CompileRecord]]] = {}
    for run in runs:
        for record in run.outcome.records:
            if not record.ok:
                kind = f"{record.overflow.memory} overflow" if record.overflow else describe_error(record)
                found.setdefault((f"{record.kernel} ({LIBRARIES[run.library]})", kind), []).append(
                    (run.column, record)
                )
    lines = []
    for (kernel, kind), failures in sorted(found.items()):
        where = ", ".join(dict.fromkeys(column for column, _ in failures))
        example = failures[0][1]
        told = kind
        if example.overflow is not None:
            told = f"[{describe_config(example.config)}] {describe_error(example)}"
        lines.append(f"- `{kernel}`: {shown(told)} ({len(failures)} configs: {where})")
    return lines or ["Everything compiled."]


def shown(text: str) -> str:
    """Text for Markdown, with paths from below site-packages."""
    if "site-packages/" in text:
        head, _, tail = text.partition("site-packages/")
        text = head[: head.rfind("/", 0, head.rfind("(at ") + 5)] + tail if "(at " in head else tail
    return text.replace("|", "\\|").replace("<", "&lt;")


def stopped(runs: Sequence[Run]) -> list[str]:
    """One line for each operator and error."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for name, error in run.told["stopped"].items():
            found.setdefault((name, error), []).append(run.column)
    return [
        f"- `{name}`: {shown(error)} ({', '.join(columns)})" for (name, error), columns in found.items()
    ] or ["None."]


def injected(runs: Iterable[Run]) -> list[str]:
    """What became of leaked, absent and misspelt options."""
    lines = [
        "For one config of every kernel that compiled: `multibuffer=False` among the constants must arrive, "
        "with the hash of a call that asks for it properly; `auto_blockify_size=2`, which 3.2.0 lacks, "
        "must be left out, with the hash of a call without it; `multibufer=False` must be refused.",
        "",
        "| package | kernels | delivered | left out | refused | otherwise |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        told = run.told.get("injections")
        if told is not None:
            counts = " | ".join(str(told[key]) for key in ("kernels", "delivered", "ignored", "refused"))
            lines.append(
                f"| {LIBRARIES[run.library]} | {counts} | {'; '.join(map(shown, told['wrong'])) or '-'} |"
            )
    return lines


def speed(
    first: Sequence[Run],
    second: Sequence[Run],
    extra: Iterable[Run],
    seconds: tuple[float, float],
    workers: int,
) -> list[str]:
    """What the offline mode costs, and what its cache saves."""
    lines = [
        "The same kernels, compiled with nothing but the change without which a compile cannot end here "
        "(the last stage keeps its text; with HIVM, stand-ins for `hivmc` and for the chip's name), and in "
        "offline mode. Medians of the CPU time, the compilers' included, of five alternating rounds, each "
        "into an empty cache.",
        "",
        "| package | kernels | stage | compilers alone | offline mode | ratio | second run | times faster |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in extra:
        told = run.told["speed"]
        lines.append(
            f"| {LIBRARIES[run.library]} | {told['kernels']} | {MODES[run.hivm]} | {told['bare']:.0f} ms "
            f"| {told['first']:.0f} ms | {told['ratio']:.3f} | {told['second']:.0f} ms "
            f"| {told['first'] / told['second']:.0f} |"
        )
    totals = [
        sum(r.milliseconds for run in runs for r in run.outcome.records) / 1e3 for runs in (first, second)
    ]
    compiles = sum(len(run.outcome.records) for run in first)
    return [
        *lines,
        "",
        f"All {compiles} compiles of the tables above, {workers} workers: {totals[0]:.0f} s of compiling in "
        f"the first run, {totals[1]:.1f} s in the second (failed compiles included, whose front end runs "
        f"again); {seconds[0]:.0f} s and {seconds[1]:.0f} s on the clock, of which most of the second is the "
        "import of torch and the packages, and the tensor arithmetic of the operators.",
    ]


def kernel_table(runs: Sequence[Run], kernels: Iterable[tuple[str, str, str]]) -> list[str]:
    """Each kernel with the configs that compiled of those that were tried, for each column."""
    columns = list(dict.fromkeys(run.column for run in runs))
    cells: dict[tuple[tuple[str, str, str], str], list[CompileRecord]] = {}
    for run in runs:
        for key, records in kernels_of(run).items():
            cells.setdefault((key, run.column), []).extend(records)
    lines = [f"| package | kernel | file | {' | '.join(columns)} |", f"|---|---|---|{'---|' * len(columns)}"]
    for key in kernels:
        package, file, kernel = key
        counts = []
        for column in columns:
            records = cells.get((key, column), [])
            counts.append(f"{sum(r.ok for r in records)}/{len(records)}" if records else "-")
        lines.append(f"| {package} | `{kernel}` | {file} | {' | '.join(counts)} |")
    return lines


if __name__ == "__main__":
    main()
