"""triton-ascend's own unit tests, run offline as they stand: writes docs/unit-tests.md.

    python benchmarks/unit_tests.py run CHECKOUT compiled.json
    python benchmarks/unit_tests.py run CHECKOUT computed.json --execute
    python benchmarks/unit_tests.py page compiled.json computed.json

CHECKOUT is a clone of triton-ascend, at the commit whose tests are to run (3.2.0's is 23ac2717c); the tests
are in its folder `pytest_ut`. They need torch, einops, scipy and pytest-xdist beside triton-ascend. A test
that ends its process, or takes more than `--limit` seconds, is told as that; the others run on without it.
"""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_ascend_compat.offline import current_session

ROOT = Path(__file__).resolve().parents[1]
LOG = "UNIT_TESTS_LOG"
BATCH = 12

#: How a test can end, and what that means.
OUTCOMES = {
    "computed": "passed, and all that it launched was computed",
    "passed": "passed, with launches that were not computed, or with none",
    "uncompared": "compiled; it compares results of launches that were not computed",
    "skipped": "skipped by itself",
    "failed": "failed",
    "died": "ended its process, or ran out of time",
}


@dataclass(frozen=True)
class Cause:
    """What was found out about failures: a `pattern` for test and error, whose fault it is, and why; with the
    `evidence` that was seen when it was traced."""

    pattern: str
    whose: str
    why: str
    evidence: str

    @classmethod
    def read(cls) -> list[Cause]:
        """All that were traced, the more telling first."""
        return [
            cls(**one) for one in json.loads(Path(__file__).with_name("unit_test_causes.json").read_text())
        ]

    def fits(self, result: Result) -> bool:
        """Whether this is why a test failed."""
        return re.search(self.pattern, f"{result.file}::{result.test} {result.why}") is not None


@dataclass(frozen=True)
class Result:
    """How one test ended: one of OUTCOMES, and why."""

    file: str
    test: str
    outcome: str
    why: str


def pytest_runtest_logstart(nodeid: str) -> None:
    """As a pytest plugin, in the process of the tests: note what begins."""
    _log({"begins": nodeid})


def pytest_runtest_logreport(report: Any) -> None:
    """Note how a phase of a test ended."""
    crash = getattr(report.longrepr, "reprcrash", None)
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    why = crash.message if crash is not None else str(told or "")
    outcome = report.outcome
    session = current_session()
    if outcome == "skipped" and "executed" in why:
        outcome = "uncompared"
    elif (
        report.when == "call" and outcome == "passed" and session is not None and session.executor is not None
    ):
        tally = session.executor.tally
        outcome = "computed" if tally.computed and not tally.refused else outcome
    _log({"test": report.nodeid, "when": report.when, "outcome": outcome, "why": why})


def pytest_collectreport(report: Any) -> None:
    """Note a file that cannot be imported."""
    if report.failed:
        _log(
            {"test": report.nodeid, "when": "collect", "outcome": "failed", "why": report.longreprtext[-400:]}
        )


def _log(line: dict[str, Any]) -> None:
    with Path(os.environ[LOG]).open("a") as file:
        file.write(json.dumps(line) + "\n")


def run_batch(files: Sequence[Path], options: Sequence[str], limit: float) -> list[Result]:
    """Run the tests of some files in one process, and after a death in further ones without what ended."""
    with tempfile.TemporaryDirectory(prefix="unit-tests-") as folder:
        log, done = Path(folder) / "log", Path(folder) / "done"
        log.touch()
        results: list[Result] = []
        while True:
            code = _run_once(files, options, limit, Path(folder))
            ended, running = _read(log)
            results += ended
            log.write_text("")
            if running is not None:
                why = f"more than {limit:.0f} s" if code is None else f"the process ended with {code}"
                results.append(Result(*_split(running), "died", why))
            elif code is None or code not in (0, 1, 2, 5):
                raise SystemExit(f"pytest ended with {code}: {', '.join(file.name for file in files)}")
            if running is None:
                return results
            done.write_text("".join(f"--deselect={r.file}::{r.test}\n" for r in results if r.test))


def _run_once(files: Sequence[Path], options: Sequence[str], limit: float, folder: Path) -> int | None:
    env = {**os.environ, LOG: str(folder / "log"), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'benchmarks'}"}
    env |= {f"TRITON_{name}": str(folder / name) for name in ("CACHE_DIR", "DUMP_DIR", "HOME")}
    env |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = [f"@{folder / 'done'}"] if (folder / "done").exists() else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "unit_tests", "-p", "no:cacheprovider", *options]
    command += ["--rootdir=."]  # names of tests begin with the file: `--deselect` needs them so
    command += ["--continue-on-collection-errors", *done, *(file.name for file in files)]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=files[0].parent, env=env, stdout=output, stderr=output)
        while process.poll() is None:
            time.sleep(0.2)
            if time.time() - (folder / "log").stat().st_mtime > limit + 15:  # 15 s for the imports
                process.kill()
                process.wait()
                return None
    return process.returncode


def _read(log: Path) -> tuple[list[Result], str | None]:
    """What ended, and the test that was running at the end, if any."""
    running, worst = None, dict[str, dict[str, Any]]()
    for line in map(json.loads, log.read_text().splitlines()):
        if "begins" in line:
            running = line["begins"]
        else:
            known = worst.get(line["test"])
            if known is None or line["outcome"] == "failed" or known["outcome"] == "passed":
                worst[line["test"]] = line
            if line["when"] == "teardown" and line["test"] == running:
                running = None
    worst.pop(running or "", None)
    return [Result(*_split(test), line["outcome"], line["why"]) for test, line in worst.items()], running


def _split(test: str) -> tuple[str, str]:
    file, _, name = test.partition("::")
    return Path(file).name, name


@dataclass(frozen=True)
class Run:
    """One run of the tests."""

    commit: str
    seconds: float
    versions: str
    results: list[Result]

    @classmethod
    def read(cls, path: Path) -> Run:
        """The run that `write` wrote."""
        data = json.loads(path.read_text())
        return cls(**{**data, "results": [Result(**result) for result in data["results"]]})

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps({**vars(self), "results": [vars(r) for r in self.results]}, indent=1))

    def failures(self) -> list[Result]:
        """The tests that failed or died."""
        return [result for result in self.results if result.outcome in ("failed", "died")]

    def counts(self, file: str | None = None) -> collections.Counter[str]:
        """How many tests, of one file or of all, ended in which way."""
        return collections.Counter(r.outcome for r in self.results if file in (None, r.file))


def run(arguments: argparse.Namespace) -> None:
    """Run the tests and write, or with `--only` replace, their results."""
    folder = next(path for path in sorted(arguments.checkout.rglob("pytest_ut")) if path.is_dir())
    files = sorted(file for file in folder.glob("test_*.py") if re.search(arguments.only, file.name))
    show = ["git", "-C", str(folder), "show", "-s", "--format=%h of %cs"]
    commit = subprocess.check_output(show, text=True).strip()
    options = ["--ascend-offline", *(["--ascend-execute"] if arguments.execute else [])]
    count = -(-len(files) // BATCH)
    batches = [files[start::count] for start in range(count)]
    started = time.perf_counter()
    results: list[Result] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for found in pool.map(lambda batch: run_batch(batch, options, arguments.limit), batches):
            results += found
            print(dict(collections.Counter(result.outcome for result in results)), flush=True)
    seconds = time.perf_counter() - started
    if arguments.only and arguments.results.exists():
        before = Run.read(arguments.results)
        names = {file.name for file in files}
        results += [result for result in before.results if result.file not in names]
        seconds += before.seconds
    packages = ("triton-ascend", "ascendnpu-ir", "torch", "numpy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    Run(commit, seconds, versions, results).write(arguments.results)


def page(arguments: argparse.Namespace) -> None:
    """Write the page from both runs."""
    compiled, computed = Run.read(arguments.compiled), Run.read(arguments.computed)
    causes = Cause.read()
    failures = [result for run in (compiled, computed) for result in run.failures()]
    for cause in causes:
        if not any(cause is _cause(result, causes) for result in failures):
            raise SystemExit(f"unit_test_causes.json: no failure has the cause {cause.pattern!r}: remove it")
    lines = [
        "# triton-ascend's own unit tests, offline",
        "",
        f"Written by `benchmarks/unit_tests.py`; do not edit. The folder `pytest_ut` of triton-ascend, "
        f"commit {compiled.commit}, on {compiled.versions}, as it stands, without torch_npu: `torch_npu`, "
        "`torch.npu` and the device are stand-ins.",
        "",
        *_summary("`pytest --ascend-offline`", compiled),
        *_summary("`pytest --ascend-offline --ascend-execute`", computed),
        "## What did not pass, and why",
        "",
        *_reasons("Compiled only", compiled, causes),
        *_reasons("Computed", computed, causes),
        "What was seen when these were traced:",
        "",
        *(f"- {_cell(cause.why)}: {_cell(cause.evidence)}." for cause in causes),
        "",
        "## Every file",
        "",
        "Of the tests of each file: compiled without an error, failed or died; passed with all launches "
        "computed, otherwise not failed, failed or died.",
        "",
        "| test file | tests | compiled | failed | computed | not computed | failed |",
        "|---|---|---|---|---|---|---|",
    ]
    for file in sorted({result.file for result in compiled.results}):
        one, two = compiled.counts(file), computed.counts(file)
        bad, worse = (counts["failed"] + counts["died"] for counts in (one, two))
        figures = (one.total(), one.total() - bad, bad, two["computed"])
        cells = " | ".join(str(n or "") for n in (*figures, two.total() - two["computed"] - worse, worse))
        lines.append(f"| {file} | {cells} |")
    arguments.page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _summary(name: str, told: Run) -> list[str]:
    counts = told.counts()
    return [
        f"{name}: {counts.total()} tests in {told.seconds / 60:.0f} minutes.",
        "",
        *(
            f"- {counts[outcome]} {outcome}: {meaning}"
            for outcome, meaning in OUTCOMES.items()
            if counts[outcome]
        ),
        "",
    ]


def _reasons(name: str, told: Run, causes: list[Cause]) -> list[str]:
    """The tests that failed or died, by file and cause."""
    found: dict[tuple[str, str, str], int] = collections.Counter()
    for result in told.failures():
        cause = _cause(result, causes)
        whose, why = (cause.whose, cause.why) if cause else ("not traced", _short(result.why))
        found[result.file, whose, _cell(why)] += 1
    rows = [f"| {file} | {n} | {who} | {why} |" for (file, who, why), n in sorted(found.items())]
    return [f"{name}:", "", "| test file | tests | whose | why |", "|---|---|---|---|", *rows, ""]


def _cause(result: Result, causes: list[Cause]) -> Cause | None:
    """Why a test failed, as far as that was traced."""
    return next((cause for cause in causes if cause.fits(result)), None)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _short(why: str) -> str:
    """The line of an error that says most, without addresses and paths, so that equal ones are equal."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    told = next((line for line in lines if re.search(r"\berror: ", line)), lines[0] if lines else "")
    return re.sub(r"(/[\w.+-]+)+/", "", re.sub(r"0x[0-9a-f]+", "0x…", told))[:200]


def main() -> None:
    """Run the tests, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="run the tests, and write their results")
    running.add_argument("checkout", type=Path)
    running.add_argument("results", type=Path)
    running.add_argument("--execute", action="store_true", help="compute the launches")
    running.add_argument("--limit", type=float, default=120, help="seconds a test")
    running.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    running.add_argument("--only", default="", help="a pattern: replace the results of these files only")
    running.set_defaults(call=run)
    writing = commands.add_parser("page", help="write the page from both results")
    writing.add_argument("compiled", type=Path)
    writing.add_argument("computed", type=Path)
    writing.add_argument("--page", type=Path, default=ROOT / "docs" / "unit-tests.md")
    writing.set_defaults(call=page)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
