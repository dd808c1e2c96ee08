"""Fixtures of the offline tests: folders of their own, and a check that nothing is left installed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DUMP_DIR", str(tmp_path / "dump"))
    monkeypatch.setenv("TRITON_HOME", str(tmp_path / "home"))


def installed() -> dict[str, Any]:
    """What the offline mode may change while it is on."""
    import triton.testing
    from triton.compiler import compiler
    from triton.runtime import autotuner, jit
    from triton.runtime.driver import driver

    from triton_ascend_compat.generations import backend_namespace
    from triton_ascend_compat.offline.backend import backend_class

    backend = backend_class()
    places = {
        backend: ("hash", "add_stages", "parse_options"),
        compiler.ASTSource: ("parse_options", "make_ir"),
        compiler.IRSource: ("parse_options", "make_ir"),
        compiler.CompiledKernel: ("__init__", "_init_handles"),
        autotuner.Autotuner: ("run",),
        autotuner.Heuristics: ("run",),
        jit.JITFunction: ("run",),
        jit.KernelInterface: ("__init_subclass__",),
        driver: ("active",),
        triton.testing: ("do_bench",),
    }
    found = {
        f"{getattr(owner, '__name__', owner)}.{name}": vars(owner).get(name)
        for owner, names in places.items()
        for name in names
    }
    namespace = backend_namespace(backend)
    found |= {name: namespace.get(name) for name in ("NPUUtils", "subprocess")}
    found |= {name: os.environ.get(name) for name in ("TRITON_CACHE_DIR", "PATH")}
    return found


@pytest.fixture(autouse=True)
def nothing_stays_behind(own_folders: None) -> Any:
    before = installed()
    yield
    assert installed() == before
