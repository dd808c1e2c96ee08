"""What tests compile elsewhere than on their own thread: in threads, and in processes that they start."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from triton_ascend_compat.checking import VARIABLE, child, going_on, jobs
from triton_ascend_compat.offline import CompileRecord, current_session
from triton_ascend_compat.offline.session import remove_own, set_variables


class Elsewhere:
    """Gathers it for one pytest process. Processes tell it in files, one for each test."""

    def __init__(self, cache: str | None, execute: bool) -> None:
        self._cache, self._execute = cache, execute
        # Where `check` watches, it looks for its own file's name in the environments of processes.
        watched = Path(child.records_of(os.environ[VARIABLE])) if VARIABLE in os.environ else None
        prefix, where = (f"{watched.name}-", watched.parent) if watched else ("ascend-tests-", None)
        self._folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
        self._numbers = itertools.count()
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._open: list[tuple[jobs.Job, Path]] = []
        self._taken: dict[tuple[jobs.Job, Path], tuple[CompileRecord, ...]] = {}
        #: Failed compiles in threads of this process, for whose errors no code waits.
        self.in_threads: list[CompileRecord] = []
        #: Command lines of processes in which nothing could be recorded.
        self.outside: list[str] = []
        if watched is None:
            sys.addaudithook(self._program_starts)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    @contextlib.contextmanager
    def around(self, chip: str, hivm: bool) -> Iterator[None]:
        """Let processes that are started inside the block compile offline, and tell of it."""
        file = self._folder / f"{next(self._numbers)}.jsonl"
        job = jobs.Job(jobs.Target("pytest", "pytest"), chip, hivm, self._cache, self._execute)
        environment = job.environment(file)
        before = {name: os.environ.get(name) for name in (VARIABLE, "PYTHONPATH")}
        set_variables({name: environment[name] for name in before})
        self._open.append((job, file))
        self._taken[job, file] = ()
        self.in_threads.clear()
        try:
            yield
        finally:
            self._open.pop()
            set_variables(before)

    def heard(self, record: CompileRecord) -> bool:
        """Take a record of an open session; whether it is of this process, and not of a forked one."""
        if os.getpid() != self._pid:
            return False
        if not record.ok and threading.get_ident() != self._thread and not going_on.awaited(sys._getframe(1)):
            self.in_threads.append(record)
        return True

    def seen(self) -> jobs.Outcome:
        """What processes of the innermost block have told by now."""
        return jobs.read(*self._open[-1])

    def take(self) -> jobs.Outcome:
        """The same, for the one that keeps it."""
        outcome = self.seen()
        self._taken[self._open[-1]] = outcome.records
        self.outside += outcome.outside
        return outcome

    def late(self) -> list[CompileRecord]:
        """What nobody has taken: compiles of processes that outlived their test, or serve several."""
        late = []
        for told, taken in self._taken.items():
            records = jobs.read(*told).records
            late += [record for record in records if record not in taken]
            self._taken[told] = records
        return late

    def end(self) -> None:
        """Remove the files, unless this is a forked process, which ends before."""
        remove_own(self._folder, self._pid)

    def _forked(self) -> None:
        """In a forked process, as soon as it is one; nothing can take this away."""
        session = current_session()
        if self._open and session is not None and os.getppid() == self._pid:
            child.record_forked(os.environ.get(VARIABLE), session)

    def _program_starts(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook, which nothing can take away."""
        if self._open and event in child.STARTS and os.getpid() == self._pid:
            told = child.unrecorded(event, arguments)
            self.outside += [told] if told is not None else []
