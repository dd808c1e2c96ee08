"""TRITON_ALL_BLOCKS_PARALLEL in the cache key of triton-ascend 3.2.0, and the option that needs it."""

from __future__ import annotations

import os
import sys
import warnings

import pytest

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource, compile, make_backend  # noqa: E402

import triton_ascend_compat  # noqa: E402
from tests.kernels import SIGNATURE, add_kernel  # noqa: E402
from tests.shapes import backend_shape  # noqa: E402
from triton_ascend_compat import generations  # noqa: E402
from triton_ascend_compat.errors import IneffectiveOptionWarning  # noqa: E402
from triton_ascend_compat.telling import tell  # noqa: E402

TARGET = GPUTarget("npu", "Ascend910B2", 0)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv(generations.FOLDING_VARIABLE, raising=False)
    tell.forget_warnings()
    yield
    triton_ascend_compat.disable()


@pytest.fixture
def has_the_option(monkeypatch):
    """The stand-in backend of 3.2.1, which has `auto_blockify_size`, with the wheel's reader of the variable:
    3.2.1 has the same function."""
    reader = generations.folding_reader(generations.npu_backend_class())
    with backend_shape("3.2.1") as compiler:
        monkeypatch.setattr(compiler, reader.__name__, reader, raising=False)
        yield


@pytest.fixture
def key(monkeypatch):
    """A function that says under which key `triton.compile` looks a kernel up. Not offline: that mode
    puts the variable into the key itself."""

    def stop(key):
        raise _LookedUp(key)

    monkeypatch.setattr("triton.compiler.compiler.get_cache_manager", stop)

    def key():
        with pytest.raises(_LookedUp) as caught:
            compile(ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64}), target=TARGET)
        return caught.value.args[0]

    return key


def test_without_the_shim_both_settings_share_a_key(key, monkeypatch):
    off = key()
    monkeypatch.setenv(generations.FOLDING_VARIABLE, "1")
    assert key() == off


def test_the_key_tells_the_folding(key, monkeypatch):
    without_shim = key()
    triton_ascend_compat.enable()
    keys = {}
    for value in (None, "0", "false", "1", "true"):
        if value is None:
            monkeypatch.delenv(generations.FOLDING_VARIABLE, raising=False)
        else:
            monkeypatch.setenv(generations.FOLDING_VARIABLE, value)
        keys[value] = key()
    assert keys[None] == keys["0"] == keys["false"] == without_shim
    assert keys["1"] == keys["true"] != without_shim


@pytest.mark.parametrize("told_by", ["hash", "variables"])
def test_a_backend_that_tells_it_is_left_alone(npu, monkeypatch, told_by):
    """Simulated: later backends that have the variable in the key themselves."""
    monkeypatch.setenv(generations.FOLDING_VARIABLE, "1")
    if told_by == "hash":
        backend = generations.npu_backend_class()
        monkeypatch.setattr(
            backend, "hash", lambda self: f"{self.target}{_is_auto_map_parallel_blocks_enabled()}"
        )
    else:
        libtriton = sys.modules["triton._C.libtriton"]
        monkeypatch.setattr(
            libtriton, "get_cache_invalidating_env_vars", lambda: {generations.FOLDING_VARIABLE: "1"}
        )
    backend = make_backend(npu.target)
    without_shim = backend.hash()
    triton_ascend_compat.enable()
    assert backend.hash() == without_shim


def test_an_option_without_effect_is_told_once(has_the_option):
    triton_ascend_compat.enable()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in (1, 2, 4):
            make_backend(TARGET).parse_options({"auto_blockify_size": size})
    assert [warning.category for warning in caught] == [IneffectiveOptionWarning]
    assert "=2" in str(caught[0].message)
    assert generations.FOLDING_VARIABLE in str(caught[0].message)


def test_with_folding_on_there_is_nothing_to_tell(has_the_option, monkeypatch):
    monkeypatch.setenv(generations.FOLDING_VARIABLE, "1")
    triton_ascend_compat.enable()
    assert make_backend(TARGET).parse_options({"auto_blockify_size": 2}).auto_blockify_size == 2


@pytest.mark.parametrize("where_unset", [False, True], ids=["off where unset", "on where unset"])
def test_the_key_is_marked_where_the_answer_differs_from_that_of_an_unset_variable(
    key, monkeypatch, where_unset
):
    """Simulated: a reader that is on where the variable is unset (as from 3.2.2 on), and one that says yes
    whatever it is."""
    without_shim = key()
    namespace = generations.backend_namespace(generations.npu_backend_class())
    name = generations.folding_reader(generations.npu_backend_class()).__name__
    readers = {
        "reads": (lambda: os.environ.get("TRITON_ALL_BLOCKS_PARALLEL", "01"[where_unset]) == "1"),
        "always": lambda: True,
    }
    for kind, reader in readers.items():
        monkeypatch.setitem(namespace, name, reader)
        triton_ascend_compat.enable()
        for value in ("0", "1"):
            monkeypatch.setenv(generations.FOLDING_VARIABLE, value)
            deviates = kind == "reads" and (value == "1") is not where_unset
            assert (key() != without_shim) is deviates, (kind, value)
        triton_ascend_compat.disable()


class _LookedUp(Exception):
    """Ends a compile at the look into the cache."""


def _is_auto_map_parallel_blocks_enabled():
    return True
