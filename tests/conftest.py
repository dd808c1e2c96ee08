"""Fixtures for the tests on the real triton-ascend wheel."""

from __future__ import annotations

import ast
import os
import tempfile
import threading

# Before anything imports Triton: caches and dumps of a test run stay out of the home directory.
_SCRATCH = tempfile.TemporaryDirectory(prefix="triton-ascend-compat-tests-")
for _name, _folder in {"TRITON_CACHE_DIR": "cache", "TRITON_DUMP_DIR": "dump", "TRITON_HOME": "home"}.items():
    os.environ[_name] = os.path.join(_SCRATCH.name, _folder)  # noqa: PTH118 - conftest stays light

import pytest  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def _one_parse_at_a_time():
    """Python 3.11 fails where threads parse at once ("AST constructor recursion depth mismatch",
    python/cpython#106905), and Triton parses a kernel at each compile: not what the tests are about."""
    parse, lock = ast.parse, threading.RLock()

    def one_at_a_time(*args, **kwargs):
        with lock:
            return parse(*args, **kwargs)

    ast.parse = one_at_a_time
    yield
    ast.parse = parse


@pytest.fixture
def shim():
    """The shim switched on for one test; what it warned of is forgotten before and after."""
    import triton  # noqa: F401

    import triton_ascend_compat
    from triton_ascend_compat.telling import tell

    tell.forget_warnings()
    status = triton_ascend_compat.enable()
    assert status.active, status.reason
    yield triton_ascend_compat
    triton_ascend_compat.disable()
    tell.forget_warnings()


@pytest.fixture
def npu():
    """The offline mode for one test: its `target` is the npu target to compile for.

    A shim that is switched on in it is switched off in it.
    """
    import triton_ascend_compat
    from triton_ascend_compat import shim
    from triton_ascend_compat.offline import offline

    with offline() as session:
        on_before = bool(shim.switch.fixes)
        yield session
        if not on_before:
            triton_ascend_compat.disable()


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """A function that gives every later compile an empty kernel cache, and returns its folder."""

    def fresh(name):
        folder = tmp_path / name
        monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
        return folder

    return fresh


@pytest.fixture
def wrapping_fails_at(monkeypatch):
    """A function that lets the installer fail at the attribute of this number, counted from 0, each time."""
    from triton_ascend_compat import installer

    put = installer._put

    def fail_at(number):
        seen = []

        def breaks(wrapping):
            if wrapping not in seen:
                seen.append(wrapping)
            if seen.index(wrapping) == number:
                raise RuntimeError("injected")
            put(wrapping)

        monkeypatch.setattr(installer, "_put", breaks)

    return fail_at
