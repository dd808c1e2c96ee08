"""What the pytest plugin does once it is asked to: sessions around tests, verdicts, and the summary."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import triton_ascend_compat
from triton_ascend_compat.checking import jobs, reports
from triton_ascend_compat.checking.child import RecordFile
from triton_ascend_compat.checking.elsewhere import Elsewhere
from triton_ascend_compat.offline import (
    DEFAULT_CHIP,
    CompileRecord,
    HivmUnavailable,
    NoAscendBackend,
    Session,
    UnknownChip,
    findings,
    judging,
    offline,
)
from triton_ascend_compat.offline.chips import check_chip
from triton_ascend_compat.offline.execute import NotExecutedWarning, Tally
from triton_ascend_compat.offline.records import ConfigKey
from triton_ascend_compat.offline.stand_ins import for_torch_npu

_CANNOT = (UnknownChip, NoAscendBackend, HivmUnavailable, triton_ascend_compat.CompatError)


class Delivered:
    """Asserts on the options that kernels were compiled with in one test."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(self, kernel: Any, **options: Any) -> list[CompileRecord]:
        """Assert that every compile of `kernel` in this test ended well, and with these option values."""
        __tracebackhide__ = True
        name = kernel if isinstance(kernel, str) else _name_of(kernel)
        records = [record for record in self._session.records if record.kernel == name]
        if not records:
            seen = ", ".join(sorted({record.kernel for record in self._session.records})) or "none"
            pytest.fail(f"kernel {name} was not compiled in this test; compiled: {seen}")
        for record in records:
            config = reports.describe_config(record.config)
            if not record.ok:
                pytest.fail(f"kernel {name} [{config}] did not compile: {reports.describe_error(record)}")
            for key, value in options.items():
                if key not in record.delivered:
                    told = ", ".join(reports.describe_keys(record)) or "it was not asked for"
                    pytest.fail(f"kernel {name} [{config}]: option {key} was not delivered: {told}")
                found = record.delivered[key]
                if found != value:
                    pytest.fail(f"kernel {name} [{config}]: option {key} is {found!r}, expected {value!r}")
        return records


class Run:
    """One pytest run, in one process of it."""

    def __init__(
        self,
        chips: list[str],
        hivm: bool,
        cache: str | None,
        leaks_fail: bool,
        records: str | None,
        tuner_failures: str = judging.DEFAULT_POLICY,
        execute: bool = False,
    ) -> None:
        self.chips = chips or [DEFAULT_CHIP]
        self._hivm = hivm
        self._cache = cache
        self._leaks_fail = leaks_fail
        self._tuner_failures = tuner_failures
        self._open = contextlib.ExitStack()
        self._outer: Session | None = None
        self._file = RecordFile(records) if records is not None else None
        self._elsewhere = Elsewhere(cache, execute)
        self._sessions: dict[str, Session] = {}
        self._judged: set[str] = set()
        self._told: list[dict[str, Any]] = []
        self._config_keys: list[dict[str, Any]] = []
        self._late: list[str] = []
        self._launches = 0
        self._between = 0
        self._execute = execute
        self._tally = Tally()

    def begin(self) -> None:
        """Offline mode for the whole run, imports of test modules included."""
        self._prepare(self._open)
        self._open.enter_context(for_torch_npu())
        self._open.enter_context(self._elsewhere.around(self.chips[0], self._hivm))
        self._outer = self._enter(self._open, self.chips[0], self._hivm)

    @contextlib.contextmanager
    def around(self, item: pytest.Item, chip: str, hivm: bool | None) -> Iterator[None]:
        """A session around one test."""
        with contextlib.ExitStack() as stack:
            self._prepare(stack)
            hivm = self._hivm if hivm is None else hivm
            stack.enter_context(self._elsewhere.around(chip, hivm))
            session = self._enter(stack, chip, hivm)
            self._sessions[item.nodeid] = session
            self._judged.clear()
            yield
            del self._sessions[item.nodeid]
            if self._outer is not None:
                self._outer.nested.clear()
            if self._file is not None:
                self._file.end(session)

    def judge(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Change the verdict on a test that leaked, or that missed results which nothing computed."""
        session = self._sessions.get(item.nodeid)
        if session is None:
            return
        failing = judging.failing(session.records, self._tuner_failures)
        # What a set-up did is judged with the test; a teardown answers for its own.
        elsewhere = self._elsewhere.seen()
        told = self._news(session, elsewhere, failing) if call.when != "setup" else []
        self._judged.update(told)
        compares = elsewhere.compares or (session.launches and _compares_results(call, session))
        compares = report.failed and not failing and compares
        if told and (report.passed or compares):
            report.outcome, report.longrepr = "failed", "\n".join(told)
        elif compares:
            self._skip(item, report, session, elsewhere)
        elif report.failed and (failing or told):
            report.sections.append(("Ascend offline", "\n".join([*map(_failure, failing), *told])))

    def _skip(
        self, item: pytest.Item, report: pytest.TestReport, session: Session, elsewhere: jobs.Outcome
    ) -> None:
        """Skip a test that compares results, unless they were all computed."""
        reason: str | None = "no launch executed: there are no results to compare"
        if session.executor is not None:
            reason = _tally(session, elsewhere).excuse()
        if reason is not None:
            file, line, _ = item.location
            reason = f"{len(session.records) + len(elsewhere.records)} compiles, {reason}"
            report.outcome = "skipped"
            report.longrepr = (str(item.path or file), (line or 0) + 1, f"Skipped: {reason}")

    def _news(self, session: Session, elsewhere: jobs.Outcome, failing: list[CompileRecord]) -> list[str]:
        """Why a test fails though it may have passed, without what it was told before."""
        records, keys = [*session.records, *elsewhere.records], [*session.config_keys, *elsewhere.config_keys]
        swallowed = [r for r in failing if r.tuning is not None and r.tuning not in session.raised]
        ended = {id(r) for r in failing} - {id(r) for r in swallowed}
        alone = self._alone(elsewhere.records)
        alone += [r for r in self._elsewhere.in_threads if id(r) in ended]
        told = []
        for title, found in (
            ("misplaced compile options", _leaks(records, keys) if self._leaks_fail else []),
            ("a tuner went on without", map(_failure, swallowed)),
            ("not compiled in a thread or process, where nothing waits for the error", map(_failure, alone)),
        ):
            news = [line for line in dict.fromkeys(found) if line not in self._judged]
            told += [f"{title}:", *news] if news else []
        return told

    def take(self, item: pytest.Item) -> dict[str, Any] | None:
        """What was seen in a test that ends, and outside of tests since the last one; None where the test did
        not opt in."""
        session = self._sessions.get(item.nodeid)
        if session is None:
            return None
        elsewhere = self._elsewhere.take()
        if self._file is not None:
            self._file.pass_on(elsewhere)
        records = [*self._between_tests(), *session.with_fits(), *elsewhere.records]
        return {
            "records": [record.as_dict() for record in records],
            "config_keys": [key.as_dict() for key in (*session.config_keys, *elsewhere.config_keys)],
            "launches": session.launches + elsewhere.launches,
            "tally": _tally(session, elsewhere).as_dict(),
        }

    def _between_tests(self) -> list[CompileRecord]:
        """What was compiled outside of tests and has not been told yet."""
        records = self._outer.records[self._between :] if self._outer is not None else []
        self._between += len(records)
        return records

    def as_dict(self) -> dict[str, Any]:
        """What this process saw, for the one that prints the summary."""
        self.late_failures()
        self._told += [record.as_dict() for record in self._between_tests()]
        outside = [key.as_dict() for key in (self._outer.config_keys if self._outer is not None else ())]
        return {
            "records": self._told,
            "config_keys": self._config_keys + outside,
            "launches": self._launches,
            "tally": self._tally.as_dict(),
            "outside": self._elsewhere.outside,
            "late": self._late,
        }

    def late_failures(self) -> list[str]:
        """A line for each kernel that did not compile in a process whose test had ended, where nothing waits
        for the error."""
        late = self._elsewhere.late()
        self._told += [record.as_dict() for record in late]
        for record in late:
            if self._file is not None:
                self._file.add(record)
        self._late += map(_failure, self._alone(late))
        return self._late

    def _alone(self, records: Iterable[CompileRecord]) -> list[CompileRecord]:
        """Those of other processes that count as failures and for whose errors nothing waits; what a tuner
        waits for counts by its own rule."""
        failing = judging.failing(records, self._tuner_failures)
        return [record for record in failing if not record.awaited or record.tuning is not None]

    def add(self, told: dict[str, Any]) -> None:
        """Take what another process saw."""
        self._late += told.get("late", [])
        self._told += told["records"]
        self._config_keys += told["config_keys"]
        self._launches += told["launches"]
        self._tally.add(told["tally"])
        self._elsewhere.outside += told.get("outside", [])

    def print_summary(self, terminal: Any) -> None:
        """The section at the end of pytest's report."""
        seen = self.as_dict()
        records = [CompileRecord.from_dict(data) for data in seen["records"]]
        if not records and not seen["config_keys"] and not seen["outside"]:
            return
        terminal.write_sep("=", "Ascend offline")
        for chip in dict.fromkeys(record.chip for record in records):
            mine = [record for record in records if record.chip == chip]
            kernels = len({(record.kernel, record.location) for record in mine})
            failed = sum(not record.ok for record in mine)
            terminal.write_line(f"{chip}: {len(mine)} compiles of {kernels} kernels, {failed} failed")
        counted = {id(record) for record in judging.failing(records, self._tuner_failures)}
        lines = [
            f"{'FAILED' if id(record) in counted else 'ruled out'} {_failure(record)}"
            for record in records
            if not record.ok
        ]
        lines += _leaks(records, map(ConfigKey.from_dict, seen["config_keys"]))
        lines += [f"{_where(record)}: {note}" for record in records if record.ok for note in record.notes]
        lines += map(reports.describe_outside, seen["outside"])
        lines += [f"in a process whose test had ended: {line}" for line in seen["late"]]
        for line, count in collections.Counter(lines).items():
            terminal.write_line(line + (f" ({count} times)" if count > 1 else ""))
        if self._execute:
            for line in self._tally.lines():
                terminal.write_line(line)
            return
        terminal.write_line(f"{self._launches} launches were not executed. {reports.NOT_EXECUTED}")

    def end(self) -> None:
        """Leave the offline mode, and switch off what was switched on."""
        self._open.close()
        self._elsewhere.end()

    def check_chips(self, chips: Iterable[str]) -> None:
        """Raise `pytest.UsageError` unless all these chips are accepted."""
        with _usage_errors():
            for chip in chips:
                check_chip(chip)

    def _heard(self, record: CompileRecord) -> None:
        if self._elsewhere.heard(record) and self._file is not None:
            self._file.add(record)

    def _prepare(self, stack: contextlib.ExitStack) -> None:
        """Switch the shim on until `stack` ends, unless it is on."""
        self.check_chips(self.chips)
        if not triton_ascend_compat.status().active:
            with _usage_errors():
                triton_ascend_compat.enable()
            stack.callback(triton_ascend_compat.disable)

    def _enter(self, stack: contextlib.ExitStack, chip: str, hivm: bool) -> Session:
        with _usage_errors():
            # A session around the whole run hears of its tests' compiles as well.
            on_record = self._heard if self._outer is None else None
            return stack.enter_context(
                offline(chip, hivm=hivm, cache=self._cache, on_record=on_record, execute=self._execute)
            )


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except _CANNOT as error:
        raise pytest.UsageError(f"Ascend offline mode: {error}") from error


def _tally(session: Session, elsewhere: jobs.Outcome) -> Tally:
    """What became of the launches of a test, and of its processes."""
    own = session.executor.tally if session.executor is not None else None
    return jobs.tally_of(one.as_dict() for one in (own, elsewhere.tally) if one is not None)


def _compares_results(call: pytest.CallInfo[None], session: Session) -> bool:
    """Whether a test ended in an assertion on results of a launch."""
    if call.excinfo is None or not session.records:
        return False
    error = call.excinfo.value
    asserts = isinstance(error, (AssertionError, pytest.fail.Exception))
    return isinstance(error, NotExecutedWarning) or session.arguments.compared_by(error, asserts)


def _leaks(records: Iterable[CompileRecord], config_keys: Iterable[ConfigKey]) -> list[str]:
    told = [f"{_where(each)}: {line}" for each in records for line in reports.describe_keys(each)]
    return told + list(map(reports.describe_config_key, findings.not_launched(config_keys, records)))


def _failure(record: CompileRecord) -> str:
    return f"{_where(record)} on {record.chip}: {reports.describe_error(record)}"


def _where(record: CompileRecord) -> str:
    return f"{record.kernel} [{reports.describe_config(record.config)}] {record.location or ''}".rstrip()


def _name_of(kernel: Any) -> str:
    while not hasattr(kernel, "__name__"):  # tuners and heuristics wrap the kernel as `fn`
        kernel = kernel.fn
    return str(kernel.__name__)
