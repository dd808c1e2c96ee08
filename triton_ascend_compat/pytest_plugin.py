"""The pytest plugin: tests that compile Triton kernels for Ascend, without CANN and without an NPU.

pytest loads it in every run of an environment that has this package. It does nothing, and imports nothing
but pytest, until a run asks for it (`--ascend-offline` or `ascend_offline = true`), or a test does (the
marker `ascend_offline`, or one of the fixtures). The work is done in `checking.testing`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from triton_ascend_compat.checking.testing import Delivered, Run
    from triton_ascend_compat.offline import Session

MARKER = "ascend_offline"

#: The hidden fixture by which a test that several chips are asked for gets one of them.
CHIP_FIXTURE = "_ascend_chip"

_OPT_IN_FIXTURES = {"ascend_offline", "ascend_delivered"}

_RUN: pytest.StashKey[Run] = pytest.StashKey()

_FROM_WORKERS = threading.Lock()

#: What is wrong with a test's marker; the test ends with it.
_WRONG: pytest.StashKey[str] = pytest.StashKey()

#: Which failing configs of a tuner fail a test: see `offline.judging`.
_TUNER_FAILURES = ("all", "unexpected", "none")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options and ini settings; an option wins over the ini setting of the same name."""
    group = parser.getgroup("ascend", "compile Triton kernels for Ascend without an NPU")
    group.addoption(
        "--ascend-offline", action="store_true", default=None, help="Run all tests in offline mode."
    )
    group.addoption(
        "--ascend-chip",
        action="append",
        metavar="NAME[,NAME]",
        help="Chip to compile for; with several, each test runs once for each.",
    )
    group.addoption("--ascend-hivm", action="store_true", default=None, help="Run bishengir-compile too.")
    group.addoption(
        "--ascend-execute",
        action="store_true",
        default=None,
        help="Compute launches on the CPU; needs [hivm].",
    )
    group.addoption(
        "--ascend-leaks",
        choices=("warn", "error"),
        help="Whether a test fails in which a compile option was misplaced or got lost.",
    )
    group.addoption(
        "--ascend-tuner-failures",
        choices=_TUNER_FAILURES,
        help="Which configs of a tuner fail the test that do not compile while another does: all, none, or "
        "those that fail of something else than on-chip memory or a static_assert (unexpected, the default).",
    )
    group.addoption("--ascend-cache", metavar="DIR", help="Folder of compiled kernels.")
    group.addoption("--ascend-records", metavar="FILE", help="Append a JSON line for every compile to FILE.")
    parser.addini("ascend_offline", "Run all tests in offline mode.", type="bool", default=False)
    parser.addini("ascend_chips", "Chips to compile for.", type="args", default=[])
    parser.addini("ascend_hivm", "Run bishengir-compile too.", type="bool", default=False)
    parser.addini("ascend_execute", "Compute launches on the CPU.", type="bool", default=False)
    parser.addini("ascend_leaks", "warn or error, as --ascend-leaks.", default="warn")
    parser.addini("ascend_tuner_failures", "As --ascend-tuner-failures.", default="unexpected")


def pytest_configure(config: pytest.Config) -> None:
    """Open the offline mode before test modules are imported, if the whole run asked for it."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(chip=None, hivm=None): compile this test's Triton kernels for Ascend in offline mode; "
        "chip is a name or a list of names.",
    )
    _check(config)
    if whole_run(config) and not _only_hands_out_tests(config):
        _the_run(config).begin()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per chip, where there are several."""
    marker = next(metafunc.definition.iter_markers(MARKER), None)
    if not _opts_in(metafunc.config, marker, metafunc.fixturenames):
        return
    try:
        chips, _ = _asked(metafunc.config, marker)
    except pytest.UsageError:  # the test ends with it, see pytest_runtest_protocol
        return
    if len(chips) > 1:
        metafunc.fixturenames.append(CHIP_FIXTURE)
        metafunc.parametrize(CHIP_FIXTURE, chips, indirect=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, None]:
    """Around a test that opted in: an offline session of its own."""
    marker = item.get_closest_marker(MARKER)
    if not _opts_in(item.config, marker, getattr(item, "fixturenames", ())):
        yield
        return
    callspec = getattr(item, "callspec", None)
    chip = callspec.params.get(CHIP_FIXTURE) if callspec is not None else None
    with contextlib.ExitStack() as stack:
        try:
            chips, hivm = _asked(item.config, marker)
            stack.enter_context(_the_run(item.config).around(item, chip or chips[0], hivm))
        except pytest.UsageError as error:
            item.stash[_WRONG] = str(error)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End a test whose marker is wrong."""
    if _WRONG in item.stash:
        pytest.fail(item.stash[_WRONG], pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """A test that leaks may have to fail; one that compares results that nothing computed did not."""
    outcome = yield
    run = item.config.stash.get(_RUN, None)
    if run is None:
        return
    report = outcome.get_result()
    run.judge(item, call, report)
    told = run.take(item) if report.when == "teardown" else None
    if told is not None and hasattr(item.config, "workerinput"):
        setattr(report, MARKER, told)  # goes with the report, for this process may die in the next test
    elif told is not None:
        run.add(told)


@pytest.hookimpl(tryfirst=True)
def pytest_report_from_serializable(config: pytest.Config, data: dict[str, Any]) -> None:
    """Take what an xdist worker saw in a test."""
    told = data.pop(MARKER, None)
    if told is not None:
        with _FROM_WORKERS:  # xdist calls this on a thread for each worker
            _the_run(config).add(told)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """An xdist worker sends what it saw to the process that prints the summary."""
    run = session.config.stash.get(_RUN, None)
    output = getattr(session.config, "workeroutput", None)
    if run is not None and output is not None:
        output[MARKER] = run.as_dict()
    elif run is not None and run.late_failures() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what an xdist worker saw."""
    told = getattr(node, "workeroutput", {}).get(MARKER)
    if told is not None:
        _the_run(node.config).add(told)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was compiled, what failed, and which keys were misplaced."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.print_summary(terminalreporter)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Undo everything."""
    run = config.stash.get(_RUN, None)
    if run is not None:
        run.end()


@pytest.fixture
def ascend_offline(request: pytest.FixtureRequest) -> Session:
    """The offline session of this test: its `target`, its `chip`, the `records` of its compiles so far."""
    from triton_ascend_compat.offline import current_session

    session = current_session()
    assert session is not None, f"{request.node.nodeid} runs outside of the offline mode"
    return session


@pytest.fixture
def ascend_delivered(ascend_offline: Session) -> Delivered:
    """`ascend_delivered(kernel, multibuffer=False)`: assert that the kernel was compiled with these options.

    `kernel` is the jit function or its name. Returns the records that it looked at.
    """
    from triton_ascend_compat.checking.testing import Delivered

    return Delivered(ascend_offline)


@pytest.fixture
def _ascend_chip(request: pytest.FixtureRequest) -> Any:
    return request.param


def whole_run(config: pytest.Config) -> bool:
    """Whether all tests of this run are to run in offline mode."""
    return bool(config.getoption("ascend_offline") or config.getini("ascend_offline"))


def _opts_in(config: pytest.Config, marker: pytest.Mark | None, fixtures: Any) -> bool:
    return marker is not None or whole_run(config) or not _OPT_IN_FIXTURES.isdisjoint(fixtures)


def _asked(config: pytest.Config, marker: pytest.Mark | None) -> tuple[list[str], bool | None]:
    """The chips that a test is for, and whether its marker asks for HIVM.

    Raises:
        pytest.UsageError: the marker's arguments are wrong.
    """
    chip, hivm = _marked(*marker.args, **marker.kwargs) if marker is not None else (None, None)
    if chip is None:
        return _the_run(config).chips, hivm
    chips = [chip] if isinstance(chip, str) else chip
    if not isinstance(chips, (list, tuple)) or not chips or not all(isinstance(name, str) for name in chips):
        raise pytest.UsageError(f"{MARKER}: chip is a name or a list of names, not {chip!r}")
    _the_run(config).check_chips(chips)
    return list(chips), hivm


def _marked(chip: Any = None, hivm: Any = None, *more: Any, **unknown: Any) -> tuple[Any, Any]:
    if more or unknown:
        raise pytest.UsageError(
            f"{MARKER} takes chip and hivm, not {', '.join([*map(repr, more), *unknown])}"
        )
    if hivm not in (None, True, False):
        raise pytest.UsageError(f"{MARKER}: hivm is True or False, not {hivm!r}")
    return chip, hivm


def _check(config: pytest.Config) -> None:
    """Refuse settings that cannot be right before anything runs."""
    for name, values in (("ascend_leaks", ("warn", "error")), ("ascend_tuner_failures", _TUNER_FAILURES)):
        if config.getini(name) not in values:
            raise pytest.UsageError(f"{name} is one of {', '.join(values)}, not {config.getini(name)!r}")
    paths = config.getoption("ascend_records"), config.getoption("ascend_cache")
    if any(paths):
        try:
            if paths[0]:
                Path(paths[0]).open("ab").close()
            if paths[1]:
                Path(paths[1]).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(f"cannot write {error.filename}: {error.strerror}") from error
    if config.getoption("ascend_chip") or config.getini("ascend_chips"):
        _the_run(config).check_chips(_the_run(config).chips)


def _only_hands_out_tests(config: pytest.Config) -> bool:
    """Whether this is the process that gives tests to xdist workers and runs none itself."""
    return not hasattr(config, "workerinput") and bool(config.getoption("numprocesses", None))


def _the_run(config: pytest.Config) -> Run:
    if _RUN not in config.stash:
        from triton_ascend_compat.checking.testing import Run

        cache = config.getoption("ascend_cache")
        watched = sys.modules.get("triton_ascend_compat.checking.child")
        config.stash[_RUN] = Run(
            chips=[name for word in config.getoption("ascend_chip") or () for name in word.split(",") if name]
            or list(config.getini("ascend_chips")),
            hivm=bool(config.getoption("ascend_hivm") or config.getini("ascend_hivm")),
            cache=str(Path(cache).absolute()) if cache else None,
            leaks_fail=(config.getoption("ascend_leaks") or config.getini("ascend_leaks")) == "error",
            # A pytest that a test, or a target of `check`, has started tells these.
            records=config.getoption("ascend_records") or getattr(watched, "own_file", None),
            tuner_failures=config.getoption("ascend_tuner_failures")
            or config.getini("ascend_tuner_failures"),
            execute=bool(config.getoption("ascend_execute") or config.getini("ascend_execute")),
        )
    return config.stash[_RUN]
