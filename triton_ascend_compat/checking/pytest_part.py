"""What `check pytest …` adds to pytest: a line for each test that failed of its own, not of a kernel."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from triton_ascend_compat.checking import VARIABLE, child, going_on

_FILE = child.RecordFile(os.environ[VARIABLE].split("\n")[4])


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Tell of a failure that an exception is behind which no kernel has raised."""
    outcome = yield
    if not outcome.get_result().failed or call.excinfo is None or going_on.is_of_a_kernel(call.excinfo.value):
        return
    told = f"{item.nodeid}: {call.excinfo.typename}: {child.text_of(call.excinfo.value)}"
    _FILE.write(test=told)
