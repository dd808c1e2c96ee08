"""Runs the targets of `check`, each for each chip in a process of its own, and gathers what they recorded."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from triton_ascend_compat import startup
from triton_ascend_compat.checking import CHILDREN, VARIABLE, child
from triton_ascend_compat.offline import findings
from triton_ascend_compat.offline.execute import Tally
from triton_ascend_compat.offline.records import CompileRecord, ConfigKey

#: How pytest ends when tests failed, when it was interrupted or could not import, and when it found no tests.
_TESTS_FAILED, _INTERRUPTED, _NO_TESTS = 1, 2, 5

#: How much of what a target prints is kept: its last bytes.
MOST_OUTPUT = 100_000

#: How long processes that are to end have before they are killed, in seconds.
_GRACE = 2.0

_STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


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


def parse_targets(words: Iterable[str], own: Sequence[str] = ()) -> list[Target]:
    """Targets from command line words. Each is a command of its own, `"script.py --small"` with its quotes;
    but after a plain `pytest`, the rest are its arguments. `own` are further arguments of each.

    Raises:
        BadTarget: a word is none of those.
    """
    words = list(words)
    at = words.index("pytest") if "pytest" in words else len(words)
    targets = [_parse_target(word) for word in words[:at]]
    if at < len(words):
        targets.append(Target("pytest", "pytest", tuple(words[at + 1 :])))
    return [dataclasses.replace(target, arguments=(*target.arguments, *own)) for target in targets]


def module(name: str, own: Sequence[str] = ()) -> Target:
    """The target of `-m NAME`.

    Raises:
        BadTarget: no module can have this name.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise BadTarget(f"{name!r} is no name of a module")
    return Target("pytest" if name == "pytest" else "module", name, tuple(own))


def _parse_target(word: str) -> Target:
    try:
        parts = [word] if Path(word).exists() else shlex.split(word)
    except ValueError as error:
        raise BadTarget(f"{word!r} cannot be split into a script and its arguments: {error}") from error
    if not parts or not parts[0]:
        raise BadTarget("an empty target; name a script, a module or a pytest command")
    name, *arguments = parts
    path = Path(name)
    if name == "pytest":
        return Target("pytest", name, tuple(arguments))
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise BadTarget(f"{name} is a folder without a __main__.py")
    if path.exists():
        if path.suffix == ".ipynb":
            raise BadTarget(f"{name} is a notebook; `jupyter nbconvert --to script` makes a script of it")
        if not os.access(path, os.R_OK):
            raise BadTarget(f"the script cannot be read: {name}")
        return Target("script", name, tuple(arguments))
    if name.endswith(".py") or os.sep in name:
        raise BadTarget(f"no such script: {name}")
    if not all(part.isidentifier() for part in name.split(".")):
        raise BadTarget(f"{name!r} is neither a script, a module nor a pytest command")
    return Target("module", name, tuple(arguments))


@dataclass(frozen=True)
class Job:
    """One target for one chip.

    `cache` is the absolute path of the folder for compiled kernels, None for the default one;
    `tuner_failures` one of `judging.POLICIES`, None for what pytest's settings say.
    """

    target: Target
    chip: str
    hivm: bool = False
    cache: str | None = None
    execute: bool = False
    tuner_failures: str | None = None

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.target.label} ({self.chip})"

    def command(self, records: Path) -> list[str]:
        """What to start: what the user would start. Only pytest needs to be told more, where to record."""
        if self.target.kind == "script":
            name = self.target.name
            return [sys.executable, f"./{name}" if name.startswith("-") else name, *self.target.arguments]
        if self.target.kind == "module":
            return [sys.executable, "-m", self.target.name, *self.target.arguments]
        program = Path(
            sysconfig.get_path("scripts"), "pytest"
        )  # `-m pytest` puts the current folder on the path
        return [
            *(sys.executable, *([str(program)] if program.is_file() else ["-m", "pytest"])),
            *("-p", "triton_ascend_compat.pytest_plugin", "-p", "triton_ascend_compat.checking.pytest_part"),
            *("--ascend-offline", f"--ascend-chip={self.chip}", f"--ascend-records={records}"),
            *(["--ascend-hivm"] if self.hivm else []),
            *(["--ascend-execute"] if self.execute else []),
            *([f"--ascend-cache={self.cache}"] if self.cache else []),
            *([f"--ascend-tuner-failures={self.tuner_failures}"] if self.tuner_failures else []),
            *self.target.arguments,
        ]

    def environment(self, records: Path) -> dict[str, str]:
        """That of this process, and what lets it and its children record."""
        folders = [CHILDREN, str(Path(startup.__path__[0]).resolve() / "children")]
        inherited = os.environ.get("PYTHONPATH")
        more = [entry for entry in inherited.split(os.pathsep) if entry not in folders] if inherited else []
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*folders, *more]),
            VARIABLE: child.settings(
                str(records), self.target.kind, self.chip, self.hivm, self.cache, self.execute
            ),
        }


@dataclass(frozen=True)
class Outcome:
    """What came of one job.

    Attributes:
        records: its compiles, those of its child processes included.
        launches: how many launches were asked for.
        failure: why the target itself failed, in one line; None where it did not, or where what stopped it
            was a kernel that does not compile.
        output: the end of what it printed.
        stopped_at: `file:line` at which a kernel that does not compile ended the script.
        went_on: `file:line` of each launch that failed and that the script went on after.
        outside: command lines of child processes in which nothing could be recorded, or not all.
        tally: what became of its launches; None where none was executed.
        config_keys: those that were left out of configs none of which was launched.
        tests_passed: whether this is a run of pytest that passed: what did not compile in it was expected.
        compares: whether one of its processes ended as it compared results of launches.
    """

    job: Job
    records: tuple[CompileRecord, ...]
    launches: int
    failure: str | None
    output: str
    stopped_at: str | None = None
    went_on: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    tally: Tally | None = None
    tests_passed: bool = False
    config_keys: tuple[ConfigKey, ...] = ()
    compares: bool = False

    @property
    def empty(self) -> bool:
        """Whether it ended well and compiled nothing."""
        return self.failure is None and not self.records

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        """From what `reports.as_json` writes of it.

        Raises:
            KeyError, TypeError, ValueError: it is no such thing.
        """
        fields = {field.name for field in dataclasses.fields(CompileRecord)}
        compiles = [{k: v for k, v in each.items() if k in fields} for each in data["compiles"]]
        return cls(
            Job(Target(data["kind"], data["name"], tuple(data["arguments"])), data["chip"], data["hivm"]),
            tuple(map(CompileRecord.from_dict, compiles)),
            data["launches"],
            data["failure"],
            data["output"],
            data["stopped_at"],
            tuple(data["went_on"]),
            tuple(data["outside"]),
            tally_of([data["execution"]]) if data["execution"] is not None else None,
            data["tests_passed"],
            tuple(map(ConfigKey.from_dict, data["config_keys"])),
        )


class Stopped(Exception):
    """A signal ended the run; `outcomes` is how far it got, without the jobs that were not begun."""

    def __init__(self, number: int, outcomes: list[Outcome]) -> None:
        self.number, self.outcomes = number, outcomes
        super().__init__(signal.Signals(number).name)


class _Running:
    """A job that has been started, as the leader of a process group."""

    def __init__(self, job: Job, file: Path, timeout: float | None) -> None:
        self.job, self.file, self.timeout = job, file, timeout
        self.output = file.with_suffix(".out")
        self.started = time.monotonic()
        self.told: str | None = None
        self.left: dict[int, str] = {}
        file.parent.mkdir(exist_ok=True)  # an earlier target may have emptied the folder of temporary files
        with self.output.open("wb") as sink:
            self.process = subprocess.Popen(
                job.command(file),
                env=job.environment(file),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ended(self) -> bool:
        """Whether it has ended, or has to for want of time."""
        if self.timeout is not None and time.monotonic() - self.started > self.timeout and self.told is None:
            self.told = f"it did not end within {self.timeout:g} seconds"
        return self.told is not None or self.process.poll() is not None

    def end(self) -> None:
        """End what is left of its process group, and its descendants that have left the group."""
        mark, limit = str(self.file).encode(), time.monotonic() + _GRACE
        strays = _with_environment(mark)
        while strays and self.told is None and time.monotonic() < limit:
            time.sleep(0.02)
            strays = _with_environment(mark)
        self.left = strays
        for number in (signal.SIGTERM, signal.SIGKILL):
            strays = _with_environment(mark)
            for kill, pid in [(os.killpg, self.process.pid), *((os.kill, stray) for stray in strays)]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, number)
            limit = time.monotonic() + (_GRACE if number == signal.SIGTERM else 0)
            while self.process.poll() is None and time.monotonic() < limit:
                time.sleep(0.02)
        self.process.wait()

    def outcome(self) -> Outcome:
        """What came of it."""
        told = ""
        with contextlib.suppress(FileNotFoundError), self.output.open("rb") as file:
            file.seek(max(0, self.output.stat().st_size - MOST_OUTPUT))
            told = file.read().decode(errors="replace")
        outcome = read(self.job, self.file, self.process.pid, self.left)
        failure, code = self.told, self.process.returncode
        passed = failure is None and self.job.target.kind == "pytest" and code == 0
        if failure is None and self.job.target.kind == "pytest":
            failure = _pytest_failure(code, outcome)
        elif failure is None and code != 0 and outcome.failure is None and outcome.stopped_at is None:
            failure = _death(code, told)
        elif failure is None:
            failure = outcome.failure if code != 0 else None
        if failure is None and not self.file.exists():
            failure = f"what it recorded is gone: there is no {self.file}"
        left = [f"{command} (still running when the target ended)" for command in self.left.values()]
        return dataclasses.replace(
            outcome,
            failure=failure,
            stopped_at=outcome.stopped_at if code != 0 else None,
            outside=(*outcome.outside, *(left if self.told is None else ())),
            output=told,
            tests_passed=passed,
        )


def run_jobs(
    jobs: list[Job],
    workers: int,
    progress: Callable[[Sequence[Outcome], int], object],
    timeout: float | None = None,
) -> list[Outcome]:
    """Run all jobs, `workers` at a time; the outcomes are in the order of the jobs.

    Args:
        jobs: what to run.
        workers: how many at a time.
        progress: called now and then with the outcomes so far, in the order in which the jobs ended, and the
            number of compiles of all jobs.
        timeout: how long a job may take, in seconds; a job that takes longer fails.

    Raises:
        Stopped: SIGINT, SIGTERM or SIGHUP came. No process of a job is left then, nor after an exception.
    """
    outcomes: dict[int, Outcome] = {}
    running: dict[int, _Running] = {}
    waiting = list(enumerate(jobs))[::-1]
    with tempfile.TemporaryDirectory(prefix="ascend-check-") as folder, _signals() as stops:
        try:
            while (waiting or running) and not stops:
                while waiting and len(running) < max(1, workers):
                    number, job = waiting.pop()
                    running[number] = _Running(job, Path(folder) / f"{number}.jsonl", timeout)
                for number in [number for number, each in running.items() if each.ended()]:
                    running[number].end()
                    outcomes[number] = running.pop(number).outcome()
                begun = [each.file for each in running.values()]
                compiles = sum(len(each.records) for each in outcomes.values())
                progress(list(outcomes.values()), compiles + sum(map(_count, begun)))
                time.sleep(0.05 if running else 0)
        finally:
            for number, each in running.items():
                each.told = each.told or "it was stopped"
                each.end()
                outcomes[number] = each.outcome()
        ordered = [outcomes[number] for number in sorted(outcomes)]
        if stops and (waiting or running):
            raise Stopped(stops[0], ordered)
    return ordered


class _signals:
    """A list that gets the numbers of the signals that are to end the run, in place of what they do else."""

    def __enter__(self) -> list[int]:
        self.came: list[int] = []
        self.before: dict[int, Any] = {}
        for number in _STOPS:
            try:
                self.before[number] = signal.signal(number, lambda number, _: self.came.append(number))
            except ValueError:  # this is not the main thread, which has the signals
                break
        return self.came

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def _with_environment(text: bytes) -> dict[int, str]:
    """The processes in whose environment the text stands, and their command lines, where the system shows
    that (Linux)."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text in (process / "environ").read_bytes():
                words = (process / "cmdline").read_bytes().split(b"\0")
                found[int(process.name)] = os.fsdecode(b" ".join(words).strip())
    return found


def read(job: Job, file: Path, pid: int = -1, killed: Collection[int] = ()) -> Outcome:
    """What the file of records tells of the job, whose own process is `pid`. What a process was compiling
    when it died is a failure, unless it is among the `killed`, which had no time left."""
    records: list[CompileRecord] = []
    launches, tests, tallies, compares = 0, [], [], False
    failure: str | None = None
    stopped_at: str | None = None
    went_on, outside, config_keys = [], [], []
    begun: dict[tuple[int, int], CompileRecord] = {}
    for line in _lines(file):
        if "record" in line:
            records.append(CompileRecord.from_dict(line["record"]))
            begun.pop((records[-1].pid, line["source"]), None)
        elif "begun" in line:
            lost = CompileRecord.from_dict(line["begun"])
            begun[lost.pid, line["source"]] = lost
        elif "fits" in line:
            records = [
                dataclasses.replace(record, fits=line["fits"]) if record.hash == line["of"] else record
                for record in records
            ]
        launches += line.get("launches", 0)
        tallies += [line["tally"]] if "tally" in line else []
        config_keys += [ConfigKey.from_dict(line["config_key"])] if "config_key" in line else []
        went_on += [line["went_on"]] if "went_on" in line else []
        outside += [line["outside"]] if "outside" in line else []
        tests += [line["test"]] if "test" in line else []
        end = line.get("end", {})
        if end:  # what it had begun then was no compile that it died of
            begun = {key: lost for key, lost in begun.items() if key[0] != end["pid"]}
        compares |= end.get("compares", False)
        if end.get("of_kernel"):
            records = _unawaited(records, end["pid"])
        if end.get("pid") == pid and end["error"] is not None and job.target.kind != "pytest":
            stopped_at = end["at"] if end["of_kernel"] else None
            failure = (
                None if end["of_kernel"] else f"{end['error']}" + (f" at {end['at']}" if end["at"] else "")
            )
    for lost in begun.values():
        if lost.pid in killed or _runs(lost.pid):
            continue
        records.append(lost)
        stopped_at = lost.location if lost.pid == pid and job.target.kind != "pytest" else stopped_at
    tally = tally_of(tallies) if job.execute else None
    if tests:
        own = list(dict.fromkeys(tests))  # workers of xdist import the same
        failure = f"{len(own)} failed for a reason of their own: {own[0]}"
    elif failure is not None and launches:
        nothing = "no launch was executed, so there are no results to compare"
        excuse = tally.excuse() if tally is not None else nothing
        failure += f"; {excuse}" if excuse else ""
    once = tuple(dict.fromkeys(went_on)), tuple(dict.fromkeys(outside))
    left = tuple(findings.not_launched(config_keys, records))
    return Outcome(
        job,
        tuple(records),
        launches,
        failure,
        "",
        stopped_at,
        *once,
        tally,
        config_keys=left,
        compares=compares,
    )


def _runs(pid: int) -> bool:
    """Whether there is such a process, which has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _unawaited(records: list[CompileRecord], pid: int) -> list[CompileRecord]:
    """The records, after process `pid` has ended with the last failure among them."""
    last = next((each for each in reversed(records) if each.pid == pid and not each.ok), None)
    return [dataclasses.replace(each, awaited=False) if each is last else each for each in records]


def tally_of(told: Iterable[Mapping[str, Any]]) -> Tally:
    """The sum of tallies, each as its `as_dict` gave it."""
    tally = Tally()
    for each in told:
        tally.add(each)
    return tally


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # the process was killed while it wrote this line
            continue


def _count(file: Path) -> int:
    return file.read_bytes().count(b'{"record": ') if file.exists() else 0


def _pytest_failure(code: int, outcome: Outcome) -> str | None:
    failed = any(not record.ok for record in outcome.records)
    if code == 0 or (code == _NO_TESTS and outcome.failure is None):
        return None
    if code in (_TESTS_FAILED, _INTERRUPTED) and (outcome.failure is not None or failed):
        return outcome.failure
    told = {_TESTS_FAILED: "tests failed"}
    return told.get(code, f"pytest ended with exit code {code}")


def _death(code: int, output: str) -> str:
    lines = [line.strip() for line in re.split(r"[\r\n]", output) if line.strip()]
    last = f": {lines[-1][:300]}" if lines else ""
    return f"killed by signal {-code}{last}" if code < 0 else f"exited with {code}{last}"
