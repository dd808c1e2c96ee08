"""The offline mode on the real triton-ascend 3.2.0: compiles end without CANN, and nothing stays behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget

from tests.offline.kernels import source
from triton_ascend_compat.generations import accepted_chips
from triton_ascend_compat.offline import NoAscendBackend, UnknownChip, default_cache, offline
from triton_ascend_compat.offline.backend import backend_class

BACKEND = backend_class()


def compile_fails_without_cann() -> None:
    with pytest.raises(Exception, match="ASCEND_HOME_PATH is not set"):
        triton.compile(source(), target=GPUTarget("npu", "Ascend910B2", 0))


def test_without_it_the_compile_stops_at_the_binary() -> None:
    compile_fails_without_cann()


def test_with_it_the_compile_ends() -> None:
    with offline() as session:
        kernel = triton.compile(source(), target=session.target, options={"multibuffer": False})
    assert "tt.func public @add" in kernel.asm["ttir"]
    assert "func.func @add" in kernel.asm["ttadapter"]
    assert kernel.metadata.multibuffer is False
    assert kernel.metadata.kernel_name == "add"
    assert kernel.metadata.target.arch == "Ascend910B2"


def test_every_option_is_in_the_metadata() -> None:
    with offline() as session:
        options = BACKEND(session.target).parse_options({})
        kernel = triton.compile(source(), target=session.target)
    assert set(vars(options)) <= set(kernel.metadata._fields)


@pytest.mark.parametrize("chip", accepted_chips())
def test_every_chip_compiles(chip: str) -> None:
    with offline(chip) as session:
        assert triton.compile(source(), target=session.target).metadata.target.arch == chip


def test_simt_only_mode_compiles_too() -> None:
    with offline() as session:
        kernel = triton.compile(source(), target=session.target, options={"force_simt_only": True})
    assert "ttadapter" not in kernel.asm
    assert b"tt.func public @add" in kernel.asm["npubin"]


def test_an_ordinary_compile_never_finds_an_offline_kernel() -> None:
    with offline() as session:
        triton.compile(source(), target=session.target)
    compile_fails_without_cann()


def test_a_second_compile_comes_from_the_cache() -> None:
    with offline() as session:
        first = triton.compile(source(), target=session.target)
        assert triton.compile(source(), target=session.target).hash == first.hash
    assert [record.cached for record in session.records] == [False, True]


def test_nested_blocks_end_one_by_one() -> None:
    with offline() as outer:
        with offline("Ascend910_9382") as inner:
            assert triton.compile(source(), target=inner.target).metadata.target.arch == "Ascend910_9382"
        triton.compile(source(), target=outer.target)
    compile_fails_without_cann()


def test_undone_on_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), offline():
        raise ZeroDivisionError
    compile_fails_without_cann()


def test_holds_in_threads_that_the_block_starts() -> None:
    hashes = []
    with offline() as session:
        thread = threading.Thread(
            target=lambda: hashes.append(triton.compile(source(), target=session.target).hash)
        )
        thread.start()
        thread.join()
    assert len(hashes) == 1


def test_threads_with_blocks_of_their_own_may_end_in_any_order() -> None:
    first_open, second_open, first_closed = threading.Event(), threading.Event(), threading.Event()
    archs = []

    def first() -> None:
        with offline("Ascend910B1") as session:
            first_open.set()
            assert second_open.wait(60)
            archs.append(triton.compile(source(), target=session.target).metadata.target.arch)
        first_closed.set()

    def second() -> None:
        assert first_open.wait(60)
        with offline("Ascend910B3") as session:
            second_open.set()
            assert first_closed.wait(60)
            archs.append(triton.compile(source(), target=session.target).metadata.target.arch)

    threads = [threading.Thread(target=body) for body in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert archs == ["Ascend910B1", "Ascend910B3"]


def test_an_unknown_chip_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownChip, match=r"unknown chip 'Ascend910B7'.*Ascend910B"), offline("Ascend910B7"):
        pass


def test_a_wrapper_put_on_top_is_not_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    target = GPUTarget("npu", "Ascend910B2", 0)
    with monkeypatch.context() as patch:
        with offline():
            ours = BACKEND.hash

            def theirs(self: Any) -> str:
                return "theirs-" + ours(self)

            patch.setattr(BACKEND, "hash", theirs)
        assert BACKEND.hash is theirs
        assert BACKEND(target).hash() == f"theirs-{target}"
    # What was put back is our wrapper, inert by now; take it off for the check at the end.
    assert BACKEND(target).hash() == str(target)
    BACKEND.hash = ours.__wrapped__


def test_the_cache_is_beside_the_normal_one_which_stays_empty(tmp_path: Path) -> None:
    with offline() as session:
        triton.compile(source(), target=session.target)
    assert not (tmp_path / "cache").exists()
    assert session.cache == tmp_path / "cache-ascend-offline" == default_cache()
    assert list(session.cache.rglob("add.ttadapter"))


def test_the_cache_may_be_elsewhere(tmp_path: Path) -> None:
    with offline(cache=tmp_path / "mine") as session:
        triton.compile(source(), target=session.target)
    assert list((tmp_path / "mine").rglob("add.ttadapter"))
    assert not (tmp_path / "cache-ascend-offline").exists()


def test_a_nested_session_may_use_another_cache(tmp_path: Path) -> None:
    with offline() as outer:
        with offline(cache=tmp_path / "mine") as inner:
            triton.compile(source(), target=inner.target)
        triton.compile(source(), target=outer.target)
        with offline():
            assert default_cache() == outer.cache
    assert list(inner.cache.rglob("add.ttadapter"))
    assert list(outer.cache.rglob("add.ttadapter"))


def test_a_flag_that_3_2_0_leaves_out_of_its_key_is_in_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with offline() as session:
        off = triton.compile(source(), target=session.target).hash
        monkeypatch.setenv("TRITON_ALL_BLOCKS_PARALLEL", "1")
        assert triton.compile(source(), target=session.target).hash != off


def test_the_metadata_says_that_it_is_offline() -> None:
    with offline() as session:
        assert triton.compile(source(), target=session.target).metadata.ascend_offline == "linalg"


def test_without_a_backend_for_npu_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("triton.compiler.compiler.backends", {})
        with pytest.raises(NoAscendBackend, match="install triton-ascend"), offline():
            pass
