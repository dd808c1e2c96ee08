"""What the tests of launches that compute share."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from triton_ascend_compat.offline import Session, offline


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("ascendnpuir") is None:
        missing = pytest.mark.skip(reason="ascendnpu-ir (160 MB) is not installed")
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(missing)


@pytest.fixture
def computing(own_folders: None) -> Iterator[Session]:
    with offline(execute=True) as session:
        yield session


@pytest.fixture
def unguarded(own_folders: None) -> Iterator[Session]:
    with offline(execute="unguarded") as session:
        yield session
