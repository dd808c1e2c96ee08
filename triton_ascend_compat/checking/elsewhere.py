"""What tests compile elsewhere than on their own thread: in threads, and in processes that they start."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_ascend_compat.checking import VARIABLE, child, going_on, jobs
from triton_ascend_compat.offline import CompileRecord


class Elsewhere:
    """Gathers it for one pytest process. Processes tell it in files, one for each test."""

    def __init__(self, cache: str | None, execute: bool) -> None:
        self._cache, self._execute = cache, execute
        self._folder = tempfile.mkdtemp(prefix="ascend-tests-")
        self._numbers = itertools.count()
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._open: list[tuple[jobs.Job, Path]] = []
        self._taken: dict[tuple[jobs.Job, Path], int] = {}
        #: Failed compiles in threads of this process, for whose errors no code waits.
        self.in_threads: list[CompileRecord] = []
        #: Command lines of processes in which nothing could be recorded.
        self.outside: list[str] = []
        if VARIABLE not in os.environ:  # else `check` watches already
            sys.addaudithook(self._program_starts)

    @contextlib.contextmanager
    def around(self, chip: str, hivm: bool) -> Iterator[None]:
        """Let processes that are started inside the block compile offline, and tell of it."""
        file = Path(self._folder, f"{next(self._numbers)}.jsonl")
        job = jobs.Job(jobs.Target("pytest", "pytest"), chip, hivm, self._cache, self._execute)
        environment = job.environment(file)
        before = {name: os.environ.get(name) for name in (VARIABLE, "PYTHONPATH")}
        os.environ.update({name: environment[name] for name in before})
        self._open.append((job, file))
        self._taken[job, file] = 0
        self.in_threads.clear()
        try:
            yield
        finally:
            self._open.pop()
            for name, value in before.items():
                os.environ.pop(name, None)
                os.environ.update({name: value} if value is not None else {})

    def heard(self, record: CompileRecord) -> bool:
        """Take a record of an open session; whether it is of a forked process, which has told of it now."""
        waits = record.ok or going_on.awaited(sys._getframe(1))
        if os.getpid() != self._pid:
            told = dataclasses.replace(record, awaited=waits)
            child.RecordFile(str(self._open[-1][1])).add(told)
            return True
        if not waits and threading.get_ident() != self._thread:
            self.in_threads.append(record)
        return False

    def seen(self) -> jobs.Outcome:
        """What processes of the innermost block have told by now."""
        return jobs.read(*self._open[-1])

    def take(self) -> jobs.Outcome:
        """The same, for the one that keeps it."""
        outcome = self.seen()
        self._taken[self._open[-1]] = len(outcome.records)
        return outcome

    def late(self) -> list[CompileRecord]:
        """What nobody has taken: compiles of processes that outlived their test."""
        late: list[CompileRecord] = []
        for told, taken in self._taken.items():
            records = jobs.read(*told).records
            late += records[taken:]
            self._taken[told] = len(records)
        return late

    def end(self) -> None:
        """Remove the files, unless this is a forked process, which ends before."""
        if os.getpid() == self._pid:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _program_starts(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook, which nothing can take away."""
        if self._open and event in child.STARTS and os.getpid() == self._pid:
            told = child.unrecorded(event, arguments)
            self.outside += [told] if told is not None else []
