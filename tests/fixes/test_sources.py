"""A source that was put right keeps its options, wherever it is compiled; one that comes too late meets
Triton's own error. An absent option costs little on the ten-thousandth source."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import threading
import types

import pytest

triton = pytest.importorskip("triton")

from triton.compiler import ASTSource, compile  # noqa: E402

import triton_ascend_compat  # noqa: E402
from tests.kernels import SIGNATURE, add_kernel  # noqa: E402
from triton_ascend_compat.errors import (  # noqa: E402
    AbsentOptionWarning,
    CompileOptionError,
    SemanticOptionWarning,
)
from triton_ascend_compat.fixes import constants as fix  # noqa: E402
from triton_ascend_compat.telling import tally, tell  # noqa: E402

LEAKY = {"XBLOCK": 64, "multibuffer": False}
ERROR = r"^'multibuffer' is not in list$"


class Plain(ASTSource):
    pass


class OwnOptions(ASTSource):
    def parse_options(self):
        return {"num_stages": 3}


class OwnInit(ASTSource):
    def __init__(self, fn, signature, constants):  # Triton reads the attributes only
        vars(self).update(vars(ASTSource(fn, signature)), constants=constants)


def pickled(source):
    """There and back; a JITFunction does not pickle, so it stays behind."""

    class Pickler(pickle.Pickler):
        persistent_id = staticmethod(lambda value: "kernel" if value is add_kernel else None)

    class Unpickler(pickle.Unpickler):
        persistent_load = staticmethod(lambda name: add_kernel)

    file = io.BytesIO()
    Pickler(file).dump(source)
    file.seek(0)
    return Unpickler(file).load()


@pytest.mark.parametrize("make", [ASTSource, Plain, OwnOptions])
@pytest.mark.parametrize("then", [lambda source: source, pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("compiled_on", [True, False])
def test_a_source_that_was_put_right_keeps_its_options(shim, npu, monkeypatch, make, then, compiled_on):
    monkeypatch.setattr(triton.JITFunction, "__deepcopy__", lambda self, memo: self, raising=False)
    source = then(make(add_kernel, SIGNATURE, LEAKY))
    if not compiled_on:
        shim.disable()
    proper = compile(
        make(add_kernel, SIGNATURE, {"XBLOCK": 64}), target=npu.target, options={"multibuffer": False}
    )
    kernel = compile(source, target=npu.target)
    assert (kernel.hash, kernel.metadata) == (proper.hash, proper.metadata)
    assert kernel.metadata.num_stages == (3 if make is OwnOptions else proper.metadata.num_stages)


@pytest.mark.parametrize("make", [ASTSource, OwnOptions])
def test_one_that_was_made_while_off_meets_tritons_error(npu, make):
    source = make(add_kernel, SIGNATURE, LEAKY)
    triton_ascend_compat.enable()
    with pytest.raises(ValueError, match=ERROR):
        compile(source, target=npu.target)


def test_one_whose_constants_were_set_without_init_meets_tritons_error(shim, npu):
    with pytest.raises(ValueError, match=ERROR):
        compile(OwnInit(add_kernel, SIGNATURE, LEAKY), target=npu.target)


@pytest.mark.parametrize("step", ["parse_options", "hash", "add_stages", "load_dialects", "get_module_map"])
@pytest.mark.parametrize("in_a_thread", [False, True])
def test_switched_on_in_the_middle_of_a_compile(npu, fresh_cache, monkeypatch, step, in_a_thread):
    fresh_cache("empty")
    backend = triton.compiler.compiler.backends["ascend"].compiler
    own = getattr(backend, step)

    def switch_on():
        thread = threading.Thread(target=triton_ascend_compat.enable)
        thread.start()
        thread.join()

    def stepping(*args):
        result = own(*args)
        switch_on() if in_a_thread else triton_ascend_compat.enable()
        return result

    with monkeypatch.context() as patched:
        patched.setattr(backend, step, stepping)
        with pytest.raises(ValueError, match=ERROR):
            compile(ASTSource(add_kernel, SIGNATURE, LEAKY), target=npu.target)
        triton_ascend_compat.disable()
    proper = compile(ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64}), npu.target, {"multibuffer": False})
    assert proper.metadata.multibuffer is False
    assert compile(ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64}), npu.target).metadata.multibuffer is True


def calls(work):
    """How many calls of Python functions `work` makes."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("key", ["auto_blockify_size", "waves_per_eu"])
def test_an_absent_option_is_cheap_once_it_has_been_told_of(shim, key):
    def source(**leaked):
        ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64, **leaked}).parse_options()

    with pytest.warns(AbsentOptionWarning):
        source(**{key: 2})
    source()
    clean = calls(source)
    for value in range(3, 9):
        assert calls(lambda value=value: source(**{key: value})) < clean + 60


class TestSemanticOptions:
    """Options that change what a kernel computes or how it synchronises."""

    WAYS = (
        lambda npu, **option: compile(
            ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64, **option}), target=npu.target
        ),
        lambda npu, **option: compile(
            ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64}), target=npu.target, options=option
        ),
    )

    @pytest.fixture(autouse=True)
    def _fresh(self):
        tell.forget_warnings()
        tally.forget()

    @pytest.mark.parametrize("way", WAYS, ids=["constants", "options"])
    @pytest.mark.parametrize("key", ["enable_sync_block_lock", "disable_tightly_coupled_buffer_reuse"])
    def test_one_that_a_kernel_can_need_is_refused_with_what_to_do(self, shim, npu, way, key):
        with pytest.raises(CompileOptionError, match=f"'{key}'.*can be wrong: use a release"):
            way(npu, **{key: True})
        assert way(npu, **{key: False}).hash == way(npu).hash  # which asks for nothing

    @pytest.mark.parametrize("way", WAYS, ids=["constants", "options"])
    def test_another_is_left_out_in_other_words_than_a_tuning_hint(self, shim, npu, way):
        with pytest.warns(SemanticOptionWarning, match="disable_fma.*rounded.*results may differ") as caught:
            way(npu, disable_fma=True)
        assert not any(issubclass(warning.category, AbsentOptionWarning) for warning in caught)
        with pytest.warns(AbsentOptionWarning) as hint:
            way(npu, auto_blockify_size=2)
        assert "results" not in str(hint[0].message)


class TestAsynchronousMode:
    """Triton 3.5 and later key a compile before the source is asked for its options; here on a stand-in for
    that function, `tests/frontends` has the real one."""

    @staticmethod
    def keyed(monkeypatch):
        """`triton.compiler.compiler.get_cache_key`, which 3.2.0 lacks, put there before the shim comes."""

        def get_cache_key(src, backend, options, env_vars=None):
            return f"{src.hash()}-{backend.hash()}-{options.hash()}"

        module = sys.modules["triton.compiler.compiler"]
        monkeypatch.setattr(module, "get_cache_key", get_cache_key, raising=False)
        triton_ascend_compat.enable()

        def key(constants, asked=types.MappingProxyType({})):
            from triton.compiler.compiler import get_cache_key  # as the JIT imports it, when it needs it

            source = ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64, **constants})
            backend = triton.compiler.make_backend(
                triton.backends.compiler.GPUTarget("npu", "Ascend910B2", 0)
            )
            return get_cache_key(source, backend, backend.parse_options(dict(asked)), {})

        return key, get_cache_key

    def test_candidates_stay_apart_and_are_keyed_like_the_proper_call(self, npu, monkeypatch):
        key, original = self.keyed(monkeypatch)
        candidates = [{"num_stages": 1}, {"num_stages": 3}, {"num_stages": 3, "multibuffer": False}]
        keys = [key(candidate) for candidate in candidates]
        assert keys == [key({}, candidate) for candidate in candidates]
        assert len(set(keys)) == len(candidates)
        triton_ascend_compat.disable()
        assert sys.modules["triton.compiler.compiler"].get_cache_key is original

    def test_what_did_not_leak_reaches_the_original_as_it_is(self):
        seen = []
        wrapped = fix.wrap_async_key(lambda *args: seen.append(args) or "key")
        source, options = ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64}), object()
        assert wrapped(source, None, options, {"A": "1"}) == "key"
        assert seen == [(source, None, options, {"A": "1"})]
