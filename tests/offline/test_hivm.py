"""The HIVM stage: with a stand-in for bishengir-compile, and with the real one where it is installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget

from tests.offline.kernels import source, tuned
from tests.offline.stand_in_bishengir import install
from triton_ascend_compat.offline import HivmUnavailable, Overflow, Pointer, hivm, offline

REAL = importlib.util.find_spec("ascendnpuir") is not None


@pytest.fixture(
    params=[
        "stand-in",
        pytest.param(
            "real", marks=pytest.mark.skipif(not REAL, reason="ascendnpu-ir (160 MB) is not installed")
        ),
    ]
)
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "stand-in":
        use_stand_in(tmp_path, monkeypatch)
    return str(request.param)


def use_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = install(tmp_path / "tools")
    monkeypatch.setattr(hivm, "find_tools", lambda: tmp_path / "tools")
    return log


def compiled(**constants: Any) -> Any:
    """The record of one compile with HIVM."""
    with offline(hivm=True) as session:
        try:
            triton.compile(source(**constants), target=session.target)
        except triton.compiler.errors.MLIRCompilationError:
            assert not session.records[0].ok
    (record,) = session.with_fits()
    return record


@pytest.fixture(autouse=True)
def environment_as_before(nothing_stays_behind: Any) -> Any:
    yield
    assert not any("ascend-offline-" in entry for entry in os.environ["PATH"].split(os.pathsep))


def test_the_binary_is_the_module_that_hivmc_was_given(tool: str) -> None:
    with offline(hivm=True) as session:
        kernel = triton.compile(source(), target=session.target)
    assert b"func.func @add" in kernel.asm["npubin"]
    assert kernel.metadata.ascend_offline.startswith("hivm-")
    if tool == "real":
        assert b"hivm.hir" in kernel.asm["npubin"]


def test_the_backend_builds_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = use_stand_in(tmp_path, monkeypatch)
    with offline(hivm=True) as session:
        triton.compile(source(), target=session.target, options={"multibuffer": False, "unit_flag": True})
    called = log.read_text()
    assert "--target=Ascend910B2" in called
    assert "--enable-auto-multi-buffer=False" in called
    assert "--enable-hivm-unit-flag-sync=True" in called


def test_a_compile_is_for_the_chip_that_its_record_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = use_stand_in(tmp_path, monkeypatch)
    with offline(hivm=True) as session:
        triton.compile(source(), target=GPUTarget("npu", "Ascend910B4", 0))
    assert session.records[0].chip == "Ascend910B4"
    assert "--target=Ascend910B4" in log.read_text()


def test_an_overflow_names_the_bits_and_the_largest_config_that_fits(tool: str) -> None:
    record = compiled(XBLOCK=32768)
    assert record.overflow == Overflow("UB", 2097152, 1572864)
    assert record.error == "UB overflow: needs 2097152 bits, 1572864 available"
    assert record.fits == {"XBLOCK": 16384}


def test_a_search_for_what_fits_leaves_no_records(tool: str) -> None:
    with offline(hivm=True) as session:
        with pytest.raises(triton.compiler.errors.MLIRCompilationError):
            triton.compile(source(XBLOCK=32768), target=session.target)
        assert session.largest_fit(session.records[0]) == {"XBLOCK": 16384}
    assert len(session.records) == 1


def test_what_fits_is_tried_not_only_looked_for_among_a_tuner_s_configs(tool: str) -> None:
    with offline(hivm=True) as session:
        tuned([1024, 32768, 4096])[(1,)](*[Pointer("fp32")] * 3, 1000)
        overflowed = next(record for record in session.records if record.overflow)
        assert session.largest_fit(overflowed) == {"XBLOCK": 16384}


def test_a_silent_retry_is_reported_from_the_cache_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_stand_in(tmp_path, monkeypatch)
    first, second = compiled(XBLOCK=16384), compiled(XBLOCK=16384)
    assert first.ok
    assert first.notes == ("UB overflow: compiled again with enable-auto-multi-buffer=false",)
    assert second.cached
    assert second.notes == first.notes
    assert compiled(XBLOCK=1024).notes == ()


@pytest.mark.skipif(not REAL, reason="ascendnpu-ir (160 MB) is not installed")
def test_the_real_compiler_retries_silently() -> None:
    from tests.offline.kernels import two_loads_in_a_loop

    with offline(hivm=True) as session:
        for multibuffer in (True, False):
            two_loads_in_a_loop.warmup(
                *[Pointer("fp32")] * 3, 77, XBLOCK=12288, grid=(1,), multibuffer=multibuffer
            )
    retried, plain = session.records
    assert any("enable-auto-multi-buffer=false" in note for note in retried.notes)
    assert plain.notes == ()


def test_an_overflow_is_remembered(tool: str) -> None:
    first, second = compiled(XBLOCK=32768), compiled(XBLOCK=32768)
    assert second.overflow == first.overflow
    assert second.notes == first.notes
    assert first.tool_milliseconds > 0
    assert second.tool_milliseconds == 0


def test_linalg_and_hivm_kernels_are_kept_apart(tool: str) -> None:
    with offline() as session:
        linalg = triton.compile(source(), target=session.target)
        with offline(hivm=True) as deeper:
            full = triton.compile(source(), target=deeper.target)
        again = triton.compile(source(), target=session.target)
    assert full.hash != linalg.hash == again.hash
    assert [record.cached for record in session.records] == [False, True]


def test_without_the_tool_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        patch.setenv("PATH", "/nonexistent")
        with pytest.raises(HivmUnavailable, match=r"pip install 'ascendnpu-ir>="):
            hivm.find_tools()


def test_a_chip_that_the_tool_does_not_know(tool: str) -> None:
    with pytest.raises(HivmUnavailable, match="no target Ascend310B1"), offline("Ascend310B1", hivm=True):
        pass


def test_a_tool_that_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "bishengir-compile").write_text("not a program")
    with pytest.raises(HivmUnavailable, match="does not run"):
        hivm.check_chip(tmp_path, "Ascend910B2")


def test_a_session_that_cannot_be_set_up_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_stand_in(tmp_path, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(hivm, "write_stand_ins", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError), offline(hivm=True):
            pass


def test_a_tool_on_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "tools")
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        patch.setenv("PATH", f"{tmp_path / 'tools'}{os.pathsep}{os.environ['PATH']}")
        assert hivm.find_tools() == tmp_path / "tools"


def test_another_version_of_the_tool_is_another_kernel(tmp_path: Path) -> None:
    install(tmp_path)
    before = hivm.tool_version(tmp_path)
    with (tmp_path / "bishengir-compile").open("a") as tool:
        tool.write("# newer\n")
    assert hivm.tool_version(tmp_path) != before


def test_the_line_that_installs_the_tools_asks_for_what_the_extra_does() -> None:
    extra = (Path(__file__).parents[2] / "pyproject.toml").read_text().split("\nhivm = [", 1)[1]
    assert f"pip install '{extra.split(chr(34))[1]}'" == hivm.INSTALL
