"""The fixes behind the installer: each can be switched off by name, and status lists them."""

from __future__ import annotations

import sys
from typing import ClassVar

import pytest

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource, compile  # noqa: E402

import triton_ascend_compat  # noqa: E402
from tests.kernels import SIGNATURE, add_kernel  # noqa: E402
from tests.shapes import backend_shape  # noqa: E402
from triton_ascend_compat import fixes, generations, installer, settings, shim  # noqa: E402
from triton_ascend_compat.decision.plan import Outcome  # noqa: E402
from triton_ascend_compat.errors import (  # noqa: E402
    AbsentOptionWarning,
    CompatError,
    CompileOptionError,
)
from triton_ascend_compat.offline.driver import Pointer  # noqa: E402
from triton_ascend_compat.telling import tally, tell  # noqa: E402

POINTERS = (Pointer("fp32"),) * 3
FIXES = [fix.name for fix in fixes.FIXES]
NAMES = fixes.NAMES


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv(generations.FOLDING_VARIABLE, raising=False)
    add_kernel.cache.clear()
    add_kernel.binder = None
    tally.forget()
    tell.forget_warnings()
    yield
    triton_ascend_compat.disable()


def launch(**option):
    return add_kernel[(4,)](*POINTERS, 4096, XBLOCK=64, **option)


def attributes():
    backend = generations.npu_backend_class()
    return {
        "source": vars(ASTSource)["__init__"],
        **{("backend", name): vars(backend).get(name) for name in ("parse_options", "hash")},
        "config": vars(triton.Config)["__init__"],
    }


class TestSwitching:
    #: What shows that a fix is off: the call fails, or changes nothing, as without the shim.
    OFF: ClassVar = {
        "constants": lambda npu: _raises(
            ValueError,
            lambda: compile(ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64, "num_warps": 2}), npu.target),
        ),
        "launch": lambda npu: _raises(KeyError, lambda: launch(auto_blockify_size=2)),
        "foreign": lambda npu: _raises(KeyError, lambda: launch(waves_per_eu=2)),
        "config": lambda npu: triton.Config({}, enable_linearise=True).kwargs == {},
        "folding": lambda npu: not any(label.endswith(".hash") for label in installer.wrapped()),
        "interpreter": lambda npu: (
            generations.INTERPRETER not in [getattr(finder, "name", "") for finder in sys.meta_path]
        ),
        "renames": lambda npu: shim.switch.policy().renames == (),
    }

    def test_every_fix_has_its_proof(self):
        assert set(self.OFF) == set(NAMES)

    @pytest.mark.parametrize("name", NAMES)
    def test_by_the_environment(self, npu, monkeypatch, name):
        monkeypatch.setenv(settings.DISABLE_VARIABLE, name.replace("_", "-"))
        triton_ascend_compat.enable()
        self.check(npu, name, settings.DISABLE_VARIABLE)

    @pytest.mark.parametrize("name", NAMES)
    def test_by_argument(self, npu, name):
        triton_ascend_compat.enable(without=[name])
        self.check(npu, name, "enable(without=")

    @pytest.mark.parametrize("name", NAMES)
    def test_later(self, npu, name):
        triton_ascend_compat.enable()
        triton_ascend_compat.enable(without=[name])
        assert _off() == [name]
        triton_ascend_compat.enable()  # twice is once: it stays off
        assert _off() == [name]
        triton_ascend_compat.enable(without=[])
        assert _off() == []

    def check(self, npu, name, by):
        assert _off() == [name]
        assert all(by in fix.off_because for fix in triton_ascend_compat.status().fixes if not fix.on)
        assert self.OFF[name](npu)

    def test_all_off_wraps_nothing(self, npu):
        before = attributes()
        status = triton_ascend_compat.enable(without=NAMES)
        assert (status.active, status.wrapped) == (False, ())
        assert attributes() == before

    def test_without_constants_the_others_act(self, npu):
        status = triton_ascend_compat.enable(without=["constants"])
        assert not status.active
        assert "launch" in status.reason
        with pytest.warns(AbsentOptionWarning):
            launch(auto_blockify_size=2)

    def test_an_unknown_name_in_the_environment_is_one_line_of_log(self, monkeypatch, caplog):
        monkeypatch.setenv(settings.DISABLE_VARIABLE, "launch, lunch")
        triton_ascend_compat.enable()
        (line,) = [record.getMessage() for record in caplog.records]
        assert "lunch" in line
        assert all(name in line for name in NAMES)

    def test_an_unknown_name_as_argument_is_an_error(self):
        with pytest.raises(CompatError, match=r"no fix is called lunch; there are: .*launch"):
            triton_ascend_compat.enable(without=["lunch"])


def _raises(kind, call):
    with pytest.raises(kind) as caught:
        call()
    return type(caught.value) is kind


def _off():
    """The fixes and the data that are off."""
    status = triton_ascend_compat.status()
    return [fix.name for fix in status.fixes if not fix.on] + [
        name for name, on in status.data.items() if not on
    ]


def test_disable_puts_everything_back():
    before = attributes()
    triton_ascend_compat.enable()
    assert all(attributes()[name] is not value for name, value in before.items())
    triton_ascend_compat.disable()
    assert attributes() == before


#: What each fix wraps, in the order in which that is done.
WRAPPED = ["constants"] * 3 + ["launch", "config"] + ["folding"] * 2


@pytest.mark.parametrize("failing", range(len(WRAPPED)))
def test_a_fix_goes_on_as_a_whole_and_without_the_first_there_is_none(wrapping_fails_at, failing, caplog):
    before, failed = attributes(), WRAPPED[failing]
    wrapping_fails_at(failing)
    if failed == "constants":
        with pytest.raises(CompatError, match="injected"):
            triton_ascend_compat.enable()
        assert attributes() == before
        assert not any(fix.on for fix in triton_ascend_compat.status().fixes)
        return
    (off,) = [fix for fix in triton_ascend_compat.enable().fixes if not fix.on]
    assert (off.name, off.off_because) == (failed, "failed: RuntimeError: injected")
    assert failed in caplog.text
    wrapped = installer.wrapped()
    assert len(wrapped) == len(set(wrapped)) >= len(WRAPPED) - 1 - WRAPPED.count(failed)


def test_nothing_else_is_wrapped(wrapping_fails_at):
    wrapping_fails_at(len(WRAPPED))
    assert all(fix.on for fix in triton_ascend_compat.enable().fixes)


def test_what_is_wrapped_looks_as_before():
    import inspect

    backend = generations.npu_backend_class()
    names = [(triton.Config, "__init__"), (backend, "parse_options"), (backend, "hash")]
    before = [inspect.signature(getattr(owner, name)) for owner, name in names]
    triton_ascend_compat.enable()
    assert [inspect.signature(getattr(owner, name)) for owner, name in names] == before


class TestRenamesOnBackends:
    """On stand-in backends of the late 2026 shape."""

    @pytest.mark.parametrize("forgets", [False, True], ids=["renames itself", "forgot its old names"])
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ({"inter_cache_num": 3}, {"buf_slot_num_of_crosscore": 3}),
            ({"force_simt_only": True}, {"compile_mode": "simt_only"}),
        ],
        ids=["name", "value"],
    )
    def test_an_old_name_is_the_new_one(self, forgets, old, new):
        with backend_shape("late-2026", forgets_old_names=forgets):
            _raises(KeyError, lambda: launch(**old))
            triton_ascend_compat.enable()
            asked = launch(**new)
            assert launch(**old).hash == asked.hash
            key, value = next(iter(new.items()))
            assert getattr(asked.metadata, key) == value
            delivered = tally.current().count(Outcome.DELIVERED)
            # A backend that renames by itself has its own word on it.
            assert delivered == (1 if forgets else 0)

    def test_in_constants_and_options_too(self):
        target = GPUTarget("npu", "Ascend910B2", 0)
        with backend_shape("late-2026", forgets_old_names=True):
            triton_ascend_compat.enable()
            kernels = [
                compile(ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64, **constants}), target, options)
                for constants, options in [
                    ({"inter_cache_num": 3}, {}),
                    ({}, {"inter_cache_num": 3}),
                    ({}, {"buf_slot_num_of_crosscore": 3}),
                ]
            ]
            assert len({kernel.hash for kernel in kernels}) == 1
            assert kernels[0].metadata.buf_slot_num_of_crosscore == 3

    def test_both_and_different_is_an_error_that_names_both(self):
        with backend_shape("late-2026", forgets_old_names=True):
            triton_ascend_compat.enable()
            with pytest.raises(CompileOptionError, match=r"inter_cache_num.*buf_slot_num_of_crosscore"):
                launch(inter_cache_num=3, buf_slot_num_of_crosscore=4)
            assert launch(inter_cache_num=3, buf_slot_num_of_crosscore=3)

    def test_switched_off_the_old_name_is_merely_absent_here(self):
        with backend_shape("late-2026", forgets_old_names=True):
            triton_ascend_compat.enable(without=["renames"])
            with pytest.warns(AbsentOptionWarning, match="inter_cache_num.*3.2.2"):
                launch(inter_cache_num=3)
