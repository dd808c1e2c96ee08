"""The fixes behind the installer: each can be switched off by name, and status lists them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import warnings
from typing import ClassVar

import pytest

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource, compile, make_backend  # noqa: E402

import triton_ascend_compat  # noqa: E402
from tests.kernels import SIGNATURE, add_kernel  # noqa: E402
from tests.shapes import backend_shape  # noqa: E402
from triton_ascend_compat import fixes, generations, installer, reporting, settings, tally  # noqa: E402
from triton_ascend_compat.errors import (  # noqa: E402
    AbsentOptionWarning,
    CompatError,
    CompileOptionError,
    IneffectiveOptionWarning,
)
from triton_ascend_compat.events import Outcome  # noqa: E402
from triton_ascend_compat.offline.driver import Pointer  # noqa: E402

POINTERS = (Pointer("fp32"),) * 3
NAMES = [fix.name for fix in fixes.FIXES]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv(generations.FOLDING_VARIABLE, raising=False)
    add_kernel.cache.clear()
    add_kernel.binder = None
    tally.forget()
    reporting.forget_warnings()
    yield
    triton_ascend_compat.disable()


def launch(**option):
    return add_kernel[(4,)](*POINTERS, 4096, XBLOCK=64, **option)


def attributes():
    backend = generations.npu_backend_class()
    return {
        **{name: vars(ASTSource).get(name) for name in ("__init__", "parse_options")},
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
        "folding": lambda npu: "hash" not in {name for _, name in _wrapped_by_us()},
        "interpreter": lambda npu: (
            generations.INTERPRETER not in [hook.name for hook in installer.import_hook.hooks]
        ),
        "renames": lambda npu: "renames" not in installer.active_shim().fixes,
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
        assert [fix.name for fix in triton_ascend_compat.status().fixes if not fix.on] == [name]
        triton_ascend_compat.enable()  # twice is once: it stays off
        assert [fix.name for fix in triton_ascend_compat.status().fixes if not fix.on] == [name]
        triton_ascend_compat.enable(without=[])
        assert all(fix.on for fix in triton_ascend_compat.status().fixes)

    def check(self, npu, name, by):
        off = [fix for fix in triton_ascend_compat.status().fixes if not fix.on]
        assert [fix.name for fix in off] == [name]
        assert by in off[0].off_because
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


def _wrapped_by_us():
    return [(entry.owner, entry.name) for entry in installer._state.ledger]


def test_disable_puts_everything_back():
    before = attributes()
    triton_ascend_compat.enable()
    assert all(attributes()[name] is not value for name, value in before.items())
    triton_ascend_compat.disable()
    assert attributes() == before


@pytest.mark.parametrize("failing", range(7))
def test_a_failure_half_way_rolls_everything_back(wrapping_fails_at, failing):
    before = attributes()
    wrapping_fails_at(failing)
    with pytest.raises(RuntimeError, match="injected"):
        triton_ascend_compat.enable()
    assert attributes() == before
    assert not any(fix.on for fix in triton_ascend_compat.status().fixes)


def test_what_is_wrapped_looks_as_before():
    import inspect

    backend = generations.npu_backend_class()
    names = [(triton.Config, "__init__"), (backend, "parse_options"), (backend, "hash")]
    before = [inspect.signature(getattr(owner, name)) for owner, name in names]
    triton_ascend_compat.enable()
    assert [inspect.signature(getattr(owner, name)) for owner, name in names] == before


class TestStatus:
    def test_each_fix_says_why_how_where_and_until_when(self):
        for fix in triton_ascend_compat.status().fixes:
            assert all(len(text) > 20 for text in (fix.why, fix.how, fix.until)), fix
            assert fix.upstream.startswith("https://github.com/"), fix

    def test_before_it_is_switched_on_they_are_off(self):
        assert {fix.off_because for fix in triton_ascend_compat.status().fixes} == {
            "the shim is not switched on"
        }

    def test_a_backend_that_retired_the_folding_needs_no_folding_fix(self):
        with backend_shape("late-2026"):
            (folding,) = [f for f in triton_ascend_compat.enable().fixes if f.name == "folding"]
            assert folding.off_because.startswith("not needed")

    @pytest.mark.parametrize("as_json", [False, True])
    def test_the_command_lists_them(self, as_json):
        arguments = [sys.executable, "-m", "triton_ascend_compat", "status", *["--json"] * as_json]
        printed = subprocess.run(arguments, capture_output=True, text=True, check=False).stdout
        if as_json:
            assert [fix["name"] for fix in json.loads(printed)["fixes"]] == NAMES
        else:
            assert all(name in printed for name in NAMES)


class TestFolding:
    """TRITON_ALL_BLOCKS_PARALLEL in the cache key of triton-ascend 3.2.0."""

    @pytest.fixture
    def key(self, monkeypatch):
        """A function that says under which key `triton.compile` looks a kernel up. Not offline: that mode
        puts the variable into the key itself."""
        target = GPUTarget("npu", "Ascend910B2", 0)

        def stop(key):
            raise _LookedUp(key)

        monkeypatch.setattr("triton.compiler.compiler.get_cache_manager", stop)

        def key():
            with pytest.raises(_LookedUp) as caught:
                compile(ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64}), target=target)
            return caught.value.args[0]

        return key

    def test_without_the_shim_both_settings_share_a_key(self, key, monkeypatch):
        off = key()
        monkeypatch.setenv(generations.FOLDING_VARIABLE, "1")
        assert key() == off

    def test_the_key_tells_the_folding(self, key, monkeypatch):
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
    def test_a_backend_that_tells_it_is_left_alone(self, npu, monkeypatch, told_by):
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

    def test_an_option_without_effect_is_told_once(self, npu, monkeypatch):
        with _has_auto_blockify_size(monkeypatch):
            triton_ascend_compat.enable()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for size in (1, 2, 4):
                    make_backend(npu.target).parse_options({"auto_blockify_size": size})
            assert [warning.category for warning in caught] == [IneffectiveOptionWarning]
            assert "=2" in str(caught[0].message)
            assert generations.FOLDING_VARIABLE in str(caught[0].message)

    def test_with_folding_on_there_is_nothing_to_tell(self, npu, monkeypatch):
        monkeypatch.setenv(generations.FOLDING_VARIABLE, "1")
        with _has_auto_blockify_size(monkeypatch):
            triton_ascend_compat.enable()
            parsed = make_backend(npu.target).parse_options({"auto_blockify_size": 2})
            assert parsed.auto_blockify_size == 2


class _LookedUp(Exception):
    """Ends a compile at the look into the cache."""


def _is_auto_map_parallel_blocks_enabled():
    return True


def _has_auto_blockify_size(monkeypatch):
    """The wheel's backend, with the option that 3.2.1 added: a stand-in for that release, whose backend reads
    the variable by the same function."""
    backend = generations.npu_backend_class()
    real = backend.parse_options

    def parse_options(self, opts):
        parsed = real(self, {key: value for key, value in opts.items() if key != "auto_blockify_size"})
        extended = dataclasses.make_dataclass(
            "Options321", [("auto_blockify_size", int, 1)], bases=(type(parsed),), frozen=True
        )
        return extended(**vars(parsed), auto_blockify_size=opts.get("auto_blockify_size", 1))

    context = monkeypatch.context()
    patched = context.__enter__()
    patched.setattr(backend, "parse_options", parse_options)

    class _Undo:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            triton_ascend_compat.disable()
            return context.__exit__(*error)

    return _Undo()


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
        target = generations._any_npu_target()
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

    def test_switched_off_the_old_name_is_merely_unknown_here(self):
        with backend_shape("late-2026", forgets_old_names=True):
            triton_ascend_compat.enable(without=["renames"])
            with pytest.raises(KeyError, match="inter_cache_num"):
                launch(inter_cache_num=3)
