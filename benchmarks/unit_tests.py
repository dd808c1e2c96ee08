"""triton-ascend's own unit tests, run offline as they stand: writes a table into docs/.

    python benchmarks/unit_tests.py CHECKOUT [--execute]

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
from collections.abc import Iterable, Sequence
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


def reason(why: str) -> str:
    """The line of an error that says most, without addresses and paths, so that equal ones are equal."""
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    told = next((line for line in lines if re.search(r"\berror: ", line)), lines[0] if lines else "")
    told = re.sub(r"(/[\w.+-]+)+/", "", re.sub(r"0x[0-9a-f]+", "0x…", told))
    return told[:200]


def page(results: Iterable[Result], commit: str, seconds: float) -> str:
    """The page, in Markdown."""
    by_file: dict[str, list[Result]] = collections.defaultdict(list)
    for result in results:
        by_file[result.file].append(result)
    columns = tuple(OUTCOMES)
    total = collections.Counter(result.outcome for file in by_file.values() for result in file)
    rows = []
    for file, own in sorted(by_file.items()):
        counts = collections.Counter(result.outcome for result in own)
        causes = collections.Counter(reason(r.why) for r in own if r.outcome in ("failed", "died"))
        why = (
            "; ".join(f"{cause} ({n})" for cause, n in causes.items())
            .replace("|", "\\|")
            .replace("<", "&lt;")
        )
        rows.append(f"| {file} | {len(own)} | {' | '.join(str(counts[c] or '') for c in columns)} | {why} |")
    names = ("triton-ascend", "torch", "numpy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    head = f"| test file | tests | {' | '.join(columns)} | why |"
    return "\n".join(
        [
            f"{commit}; {versions}. {sum(total.values())} tests, {seconds:.0f} s: "
            + ", ".join(f"{total[column]} {column}" for column in columns),
            "",
            head,
            "|---" * (len(columns) + 3) + "|",
            *rows,
            "",
        ]
    )


def main() -> None:
    """Run the tests and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--execute", action="store_true", help="compute the launches")
    parser.add_argument("--limit", type=float, default=120, help="seconds a test")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="a part of the names of the files to run")
    parser.add_argument("--page", type=Path, required=True)
    arguments = parser.parse_args()
    folder = next(path for path in sorted(arguments.checkout.rglob("pytest_ut")) if path.is_dir())
    files = sorted(file for file in folder.glob("test_*.py") if arguments.only in file.name)
    commit = subprocess.check_output(
        ["git", "-C", str(folder), "show", "-s", "--format=%h of %cs"], text=True
    ).strip()
    options = ["--ascend-offline", *(["--ascend-execute"] if arguments.execute else [])]
    count = -(-len(files) // BATCH)
    batches = [files[start::count] for start in range(count)]
    started = time.perf_counter()
    results = list[Result]()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for found in pool.map(lambda batch: run_batch(batch, options, arguments.limit), batches):
            results += found
            print(collections.Counter(result.outcome for result in results), flush=True)
    arguments.page.write_text(page(results, commit, time.perf_counter() - started), encoding="utf-8")
    arguments.page.with_suffix(".json").write_text(json.dumps([vars(r) for r in results], indent=0))


if __name__ == "__main__":
    main()
