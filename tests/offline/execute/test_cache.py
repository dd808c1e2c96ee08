"""Machine code is made once, for one user, and found by nobody else."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.offline.execute import kernels_wrong as kernels
from triton_ascend_compat.offline import HivmUnavailable, default_cache, hivm, offline
from triton_ascend_compat.offline.execute import lowering

A = np.arange(64, dtype=np.float32)


def folder() -> Path:
    return default_cache().with_name(default_cache().name + "-execute")


def launch() -> None:
    with offline(execute=True):
        out = np.zeros_like(A)
        kernels.copied[(4,)](A, out, 64, 16)
        assert (out == A).all()


def test_a_second_session_starts_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    launch()
    monkeypatch.setattr(lowering, "_make", lambda *_: pytest.fail("lowered again"))
    launch()


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (lowering, "_TO_LLVM", "builtin.module()"),
        (lowering.library, "TEXT", "another runtime"),
        (lowering, "_machine", lambda: ("another", "machine")),
        (lowering, "_identities", lambda _: ("other tools",)),
    ],
)
def test_the_key_has_pipeline_runtime_machine_and_tools(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object
) -> None:
    tools = lowering.Tools.find(hivm.find_tools())
    before = lowering._key("text", "pipeline", tools)
    assert before != lowering._key("other text", "pipeline", tools)
    assert before != lowering._key("text", "other pipeline", tools)
    assert before != lowering._key("text", "pipeline", tools._replace(cc=None))
    monkeypatch.setattr(owner, name, value)
    assert before != lowering._key("text", "pipeline", tools)


def test_the_folder_is_the_users_own_and_holds_libraries_only() -> None:
    launch()
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    assert {file.suffix for file in folder().iterdir()} == {".so"}
    assert not list(default_cache().rglob("*.so"))
    os.chmod(folder(), 0o755)  # noqa: PTH101
    with pytest.raises(HivmUnavailable, match="must belong to you alone"):
        launch()


def test_no_shell_runs_and_nothing_is_left_in_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    run, commands = subprocess.run, []

    def watch(command, **keywords):
        commands.append(command)
        assert not keywords.get("shell")
        return run(command, **keywords)

    monkeypatch.setattr(subprocess, "run", watch)
    launch()
    assert len(commands) >= 3
    assert all(isinstance(command, list) for command in commands)
    assert not list(scratch.iterdir())


def test_what_is_missing_is_said_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(HivmUnavailable, match=r"bishengir-opt, .*pip install 'ascendnpu-ir>="):
        lowering.Tools.find(tmp_path)
    tools = hivm.find_tools()
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        patch.setattr(lowering.importlib.util, "find_spec", lambda _: None)
        with pytest.raises(HivmUnavailable, match=r"a C compiler .* or llvmlite"):
            lowering.Tools.find(tools)


def test_llvmlite_does_instead_of_a_c_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    find = lowering.Tools.find
    monkeypatch.setattr(lowering.Tools, "find", lambda place: find(place)._replace(cc=None))
    launch()
