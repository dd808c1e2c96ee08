"""What `check pytest …` adds to pytest: a line for each test, or import, that failed of its own, not of a
kernel."""

from __future__ import annotations

import os
from typing import Any

import pytest

from triton_ascend_compat.checking import VARIABLE, child, going_on

_FILE = child.RecordFile(child.records_of(os.environ[VARIABLE]))


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any], report: pytest.TestReport
) -> None:
    """Tell of a failure, of a test or of a module's import, whose exception no kernel has raised."""
    if report.failed and call.excinfo is not None and not going_on.is_of_a_kernel(call.excinfo.value):
        _tell(node.nodeid, call.excinfo)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Tell what ended the run; errors of imports, which end it too, have been told."""
    if excinfo.typename != "Interrupted":
        _tell("the run", excinfo)


def _tell(of: str, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    error = excinfo.value
    if isinstance(error, pytest.Collector.CollectError):  # whose text is a whole traceback
        error = error.__cause__ or error
    _FILE.write(test=": ".join(filter(None, [of, type(error).__name__, child.text_of(error)])))
