"""Runs the targets of `check`, each for each chip in a process of its own, and gathers what they recorded."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from triton_ascend_compat.offline.records import CompileRecord

#: How pytest ends when tests failed, and when it collected none.
_TESTS_FAILED, _NO_TESTS = 1, 5


class BadTarget(ValueError):
    """A target that is neither a script, a module nor a pytest command."""


@dataclass(frozen=True)
class Target:
    """Something to run: `kind` is "script", "module" or "pytest"."""

    kind: str
    name: str
    arguments: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """As the user wrote it."""
        return shlex.join([self.name, *self.arguments])


def parse_targets(words: Iterable[str]) -> list[Target]:
    """Targets from command line words. Each is a command of its own, `"script.py --small"` with its quotes;
    but after a plain `pytest`, the rest are its arguments.

    Raises:
        BadTarget: a word is none of those.
    """
    words = list(words)
    if words and words[0] == "pytest":
        return [Target("pytest", "pytest", tuple(words[1:]))]
    return [_parse_target(word) for word in words]


def _parse_target(word: str) -> Target:
    parts = [word] if Path(word).is_file() else shlex.split(word)
    if not parts:
        raise BadTarget("an empty target")
    name, *arguments = parts
    if name == "pytest":
        return Target("pytest", name, tuple(arguments))
    if Path(name).is_file():
        return Target("script", name, tuple(arguments))
    if name.endswith(".py") or os.sep in name:
        raise BadTarget(f"no such script: {name}")
    if not all(part.isidentifier() for part in name.split(".")):
        raise BadTarget(f"{name!r} is neither a script, a module nor a pytest command")
    return Target("module", name, tuple(arguments))


@dataclass(frozen=True)
class Job:
    """One target for one chip.

    `cache` is the folder for compiled kernels, None for the default one.
    """

    target: Target
    chip: str
    hivm: bool = False
    cache: str | None = None

    def command(self, records: Path) -> list[str]:
        """What to start, so that it appends its records to the file `records`."""
        if self.target.kind == "pytest":
            return [
                *(sys.executable, "-m", "pytest", "-p", "triton_ascend_compat.pytest_plugin"),
                *("--ascend-offline", f"--ascend-chip={self.chip}", f"--ascend-records={records}"),
                *(["--ascend-hivm"] if self.hivm else []),
                *([f"--ascend-cache={self.cache}"] if self.cache else []),
                *self.target.arguments,
            ]
        settings = {
            "records": str(records),
            "kind": self.target.kind,
            "name": self.target.name,
            "arguments": self.target.arguments,
            **{key: getattr(self, key) for key in ("chip", "hivm", "cache")},
        }
        return [sys.executable, "-m", "triton_ascend_compat.checking.child", json.dumps(settings)]


@dataclass(frozen=True)
class Outcome:
    """What came of one job. `failure`: why the target itself failed, in one line; None where it did not, or
    where what stopped it was a kernel that does not compile. `output`: the end of what it printed."""

    job: Job
    records: tuple[CompileRecord, ...]
    launches: int
    failure: str | None
    output: str


def run_jobs(jobs: list[Job], workers: int, progress: Callable[[int, int, int], None]) -> list[Outcome]:
    """Run all jobs, `workers` at a time; the outcomes are in the order of the jobs.

    `progress` is called now and then with the numbers of jobs done, of compiles, and of those that failed.
    """
    with tempfile.TemporaryDirectory(prefix="ascend-check-") as folder:
        files = [Path(folder) / f"{number}.jsonl" for number in range(len(jobs))]
        done = threading.Event()
        with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
            futures = {pool.submit(_run_job, job, file): job for job, file in zip(jobs, files)}
            watcher = threading.Thread(target=_watch, args=(files, futures, done, progress), daemon=True)
            watcher.start()
            try:
                for future in as_completed(futures):
                    future.result()
            finally:
                done.set()
                watcher.join()
        return [future.result() for future in futures]


def _run_job(job: Job, file: Path) -> Outcome:
    output = file.with_suffix(".out")
    with output.open("wb") as sink:
        code = subprocess.run(
            job.command(file), stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, check=False
        ).returncode
    told = output.read_text(errors="replace")
    records, launches, failure, ended = _read(file)
    if job.target.kind == "pytest":
        failure = _pytest_failure(code, records)
    elif not ended:
        failure = _death(code, told)
    return Outcome(job, tuple(records), launches, failure, told[-4000:])


def _read(file: Path) -> tuple[list[CompileRecord], int, str | None, bool]:
    records: list[CompileRecord] = []
    launches, failure, ended = 0, None, False
    for line in _lines(file):
        if "record" in line:
            records.append(CompileRecord.from_dict(line["record"]))
        elif "fits" in line:
            records = [
                dataclasses.replace(record, fits=line["fits"]) if record.hash == line["of"] else record
                for record in records
            ]
        elif "end" in line:
            launches += line["end"]["launches"]
            failure, ended = line["end"]["failure"], True
    return records, launches, failure, ended


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # the process was killed while it wrote its last line
            return


def _pytest_failure(code: int, records: list[CompileRecord]) -> str | None:
    if code == 0 or (code == _TESTS_FAILED and any(not record.ok for record in records)):
        return None
    told = {_TESTS_FAILED: "tests failed", _NO_TESTS: "pytest collected no tests"}
    return told.get(code, f"pytest ended with exit code {code}")


def _death(code: int, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = f": {lines[-1][:300]}" if lines else ""
    return f"killed by signal {-code}{last}" if code < 0 else f"ended with exit code {code}{last}"


def _watch(
    files: list[Path], futures: Any, done: threading.Event, progress: Callable[[int, int, int], None]
) -> None:
    while not done.wait(0.2):
        lines = [line for file in files for line in _lines(file) if "record" in line]
        failed = sum(line["record"]["error"] is not None for line in lines)
        progress(sum(future.done() for future in futures), len(lines), failed)
