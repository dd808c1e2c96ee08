"""Options that this release does not have, given where options belong (launches, warm-up, autotune configs,
`options=`): on the real triton-ascend 3.2.0, in the offline mode, and on stand-ins of other option shapes."""

from __future__ import annotations

import threading
import warnings
from typing import ClassVar

import pytest

triton = pytest.importorskip("triton")

from triton.compiler import ASTSource, compile  # noqa: E402

import triton_ascend_compat  # noqa: E402
from tests.kernels import SIGNATURE, add_kernel, named_like_options  # noqa: E402
from tests.shapes import SHAPES, backend_shape  # noqa: E402
from triton_ascend_compat import generations  # noqa: E402
from triton_ascend_compat.decision.plan import Outcome  # noqa: E402
from triton_ascend_compat.errors import (  # noqa: E402
    AbsentOptionWarning,
    CompileOptionError,
    SemanticOptionWarning,
)
from triton_ascend_compat.offline.driver import Pointer  # noqa: E402
from triton_ascend_compat.telling import tally, tell  # noqa: E402

POINTERS = (Pointer("fp32"),) * 3
ABSENT, UNKNOWN, FOREIGN = {"auto_blockify_size": 2}, {"multibufer": False}, {"waves_per_eu": 2}


@pytest.fixture(autouse=True)
def _fresh():
    """Kernels hold what they compiled and the backend that did: each test starts with neither."""
    for kernel in (add_kernel, named_like_options):
        kernel.cache.clear()
        kernel.binder = None
    tally.forget()
    tell.forget_warnings()
    yield
    triton_ascend_compat.disable()


# The ways to give an option to add_kernel; each returns the compiled kernel.


def constants(npu, **option):
    return compile(ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64, **option}), target=npu.target)


def options(npu, **option):
    return compile(ASTSource(add_kernel, SIGNATURE, {"XBLOCK": 64}), target=npu.target, options=option)


def launch(npu, **option):
    return add_kernel[(4,)](*POINTERS, 4096, XBLOCK=64, **option)


def warmup(npu, **option):
    return add_kernel.warmup(*POINTERS, 4096, XBLOCK=64, grid=(4,), **option)


def tuned(*configs):
    return triton.autotune(configs=list(configs), key=["n"])(add_kernel)[(4,)](*POINTERS, 4096)


def config_dict(npu, **option):
    return tuned(triton.Config({"XBLOCK": 64, **option}), triton.Config({"XBLOCK": 64}))


def config_keyword(npu, **option):
    return tuned(triton.Config({"XBLOCK": 64}, **option), triton.Config({"XBLOCK": 64, "num_stages": 2}))


WAYS = (constants, options, launch, warmup, config_dict, config_keyword)


def outcome(way, npu, option):
    """What a user of 3.2.0 sees: the type of the error, or the warnings of a call that works."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            way(npu, **option)
        except Exception as error:
            return type(error)
    return [warning.category for warning in caught]


#: The same mistake without the shim and with it: (key, way) -> (before, after). An error is its type, a call
#: that works the list of its warnings. docs/options.md shows this table.
THREE_WAYS = {
    ("absent", constants): (ValueError, [AbsentOptionWarning]),
    ("absent", options): ([], [AbsentOptionWarning]),
    ("absent", launch): (KeyError, [AbsentOptionWarning]),
    ("absent", warmup): (KeyError, [AbsentOptionWarning]),
    ("absent", config_dict): (KeyError, [AbsentOptionWarning]),
    ("absent", config_keyword): ([], [AbsentOptionWarning]),
    ("foreign", constants): (ValueError, [AbsentOptionWarning]),
    ("foreign", options): ([], [AbsentOptionWarning]),
    ("foreign", launch): (KeyError, [AbsentOptionWarning]),
    ("foreign", warmup): (KeyError, [AbsentOptionWarning]),
    ("foreign", config_dict): (KeyError, [AbsentOptionWarning]),
    ("foreign", config_keyword): ([], [AbsentOptionWarning]),
    ("unknown", constants): (ValueError, CompileOptionError),
    ("unknown", options): ([], [AbsentOptionWarning]),
    ("unknown", launch): (KeyError, KeyError),
    ("unknown", warmup): (KeyError, KeyError),
    ("unknown", config_dict): (KeyError, KeyError),
    ("unknown", config_keyword): ([], [AbsentOptionWarning]),
}
KEYS = {"absent": ABSENT, "foreign": FOREIGN, "unknown": UNKNOWN}


@pytest.mark.parametrize(
    ("key", "way"), THREE_WAYS, ids=lambda part: part if isinstance(part, str) else part.__name__
)
def test_three_ways_become_one(npu, key, way):
    before, after = THREE_WAYS[key, way]
    assert outcome(way, npu, KEYS[key]) == before
    triton_ascend_compat.enable()
    assert outcome(way, npu, KEYS[key]) == after


@pytest.mark.parametrize("way", [constants, options, warmup])
def test_a_value_arrives_as_the_backend_spells_it(npu, way):
    """3.2.0 takes no notice of the later spelling, and builds without templates."""
    mode = "simd_simt_template"
    if way is not constants:
        metadata = way(npu, compile_mode=mode).metadata
        assert (metadata.compile_mode, metadata.force_simt_template) == (mode, False)
        add_kernel.cache.clear()
    triton_ascend_compat.enable()
    metadata = way(npu, compile_mode=mode).metadata
    assert (metadata.compile_mode, metadata.force_simt_template) == ("unstructured_in_simt", True)


def test_the_table_has_every_way_and_key():
    assert THREE_WAYS.keys() == {(key, way) for key in KEYS for way in WAYS}


@pytest.mark.parametrize("way", [options, launch, warmup, config_dict, config_keyword])
@pytest.mark.parametrize("option", [ABSENT, FOREIGN], ids=["absent", "foreign"])
def test_the_kernel_is_that_of_a_call_without_it(shim, npu, fresh_cache, way, option):
    without = fresh_cache("without")
    clean = way(npu)
    add_kernel.cache.clear()
    with_it = fresh_cache("with")
    with pytest.warns(AbsentOptionWarning):
        kernel = way(npu, **option)
    assert kernel.hash == clean.hash
    assert kernel.metadata == clean.metadata
    assert _folders(with_it) == _folders(without)


def _folders(cache):
    return {path.parent.name for path in cache.glob("*/*.json")}


#: Launch keywords as public kernels for Ascend pass them (FlagGems, vllm-ascend, FLA, Liger, triton-ascend's
#: tutorials and tests), and what triton-ascend 3.2.0 is to make of each: the value in the metadata, or
#: nothing where this release has no such option.
PUBLIC_CALLS = [
    ({"multibuffer": True}, {"multibuffer": True}),
    ({"multibuffer": False}, {"multibuffer": False}),
    ({"num_warps": 1}, {"num_warps": 1}),
    ({"num_warps": 8, "num_stages": 2}, {"num_warps": 8, "num_stages": 2}),
    ({"num_warps": 32, "num_ctas": 1}, {"num_warps": 32, "num_ctas": 1}),
    ({"num_stages": 3}, {"num_stages": 3}),
    ({"set_workspace_multibuffer": 2}, {"set_workspace_multibuffer": 2}),
    ({"set_workspace_multibuffer": 4, "multibuffer": True}, "same"),
    ({"limit_auto_multi_buffer_of_local_buffer": "no-l0c"}, "same"),
    ({"limit_auto_multi_buffer_of_local_buffer": "no-limit"}, "same"),
    ({"limit_auto_multi_buffer_only_for_local_buffer": True}, "same"),
    ({"limit_auto_multi_buffer_only_for_local_buffer": False, "unit_flag": True}, "same"),
    ({"unit_flag": False}, "same"),
    ({"sync_solver": True}, "same"),
    ({"enable_hivm_auto_cv_balance": True}, "same"),
    ({"tile_mix_vector_loop": 2, "tile_mix_cube_loop": 4}, "same"),
    ({"tile_mix_vector_loop": 4}, "same"),
    ({"enable_auto_bind_sub_block": False}, "same"),
    ({"disable_auto_inject_block_sync": True}, "same"),
    ({"inject_barrier_all": True}, "same"),
    ({"inject_block_all": True}, "same"),
    ({"enable_nd2nz_on_vector": True}, "same"),
    ({"enable_linearize": True}, "same"),
    ({"enable_select_analysis": True}, "same"),
    ({"compile_mode": "simt_only"}, {"compile_mode": "simt_only", "force_simt_only": True}),
    ({"force_simt_only": True}, "same"),
    ({"enable_fp_fusion": False}, "same"),
    ({"debug": True}, "same"),
    ({"sanitize_overflow": False}, "same"),
    ({"auto_blockify_size": 4}, {}),
    ({"auto_blockify_size": 8, "multibuffer": True}, {"multibuffer": True}),
    ({"enable_vf_fusion": True}, {}),
    ({"enable_vf_fusion": False, "num_warps": 2}, {"num_warps": 2}),
    ({"enable_auto_blockify": True}, {}),
    ({"enable_mixed_cv": True}, {}),
    ({"enable_ubuf_saving": True, "num_stages": 2}, {"num_stages": 2}),
    ({"vf_merge_level": 1}, {}),
    ({"optimize_dynamic_offset": True}, {}),
    ({"disable_size_align_for_cast": True}, {}),
    ({"enable_drop_unit_dims": False}, {}),
    ({"use_bytecode": True}, {}),
    ({"waves_per_eu": 1, "matrix_instr_nonkdim": 16, "kpack": 2}, {}),
    ({"maxnreg": 128}, {}),
    ({"grf_mode": "large"}, {}),
    ({"num_consumer_groups": 0, "num_buffers_warp_spec": 0}, "same"),
]

#: Of these, those whose value asks for nothing where they are options.
QUIET = ({"enable_vf_fusion": False}, {"vf_merge_level": 1}, {"use_bytecode": True})
SEMANTIC = {"enable_auto_blockify"}


@pytest.mark.parametrize(
    ("keywords", "delivered"), PUBLIC_CALLS, ids=lambda part: ",".join(part) if isinstance(part, dict) else ""
)
def test_what_public_kernels_pass(shim, npu, keywords, delivered):
    expected = keywords if delivered == "same" else delivered
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = warmup(npu, **keywords)
    assert {key: getattr(kernel.metadata, key) for key in expected} == expected
    told = [key for key, value in keywords.items() if key not in expected and {key: value} not in QUIET]
    assert len(caught) == len(told)
    for key, warning in zip(told, caught):
        assert repr(key) in str(warning.message)
        assert warning.category is (SemanticOptionWarning if key in SEMANTIC else AbsentOptionWarning)


class TestFrontends:
    """What torch_npu puts into `options=` of every compile by itself."""

    OWN: ClassVar = {
        "mix_mode": "aiv",
        "enable_bisheng_compile": True,
        "enable_vf_fusion": False,
        "vf_fusion_mode": None,
        "vf_merge_level": None,
    }

    @pytest.mark.parametrize("strict", [False, True])
    def test_is_left_out_and_no_news(self, shim, npu, strict):
        shim.enable(strict=strict)
        assert outcome(options, npu, self.OWN) == []
        assert tally.current().count(Outcome.IGNORED) == len(self.OWN)
        assert options(npu, **self.OWN).hash == options(npu).hash

    def test_another_value_is(self, shim, npu):
        asked = {**self.OWN, "mix_mode": "mix", "enable_vf_fusion": True}
        assert outcome(options, npu, asked) == [AbsentOptionWarning] * 2


class TestUnknownKeywords:
    """They keep Triton's error, with the nearest names added."""

    def test_the_error_names_what_would_be_right(self, npu):
        with pytest.raises(KeyError) as without:
            launch(npu, multibufer=False)
        triton_ascend_compat.enable()
        with pytest.raises(KeyError) as caught:
            launch(npu, multibufer=False)
        assert type(caught.value) is KeyError
        assert caught.value.args[0].startswith(without.value.args[0])
        assert "multibuffer" in caught.value.args[0]

    def test_words_that_triton_reserves_keep_its_own_error(self, npu):
        def text():
            with pytest.raises(AssertionError) as caught:
                launch(npu, device_type="npu")
            return str(caught.value)

        without = text()
        triton_ascend_compat.enable()
        assert text() == without

    def test_a_combo_kernels_parameter_is_no_misspelling(self, shim, npu):
        with pytest.raises(KeyError) as caught:
            launch(npu, XBLOCK_0=64)
        assert "nearest" not in caught.value.args[0]
        assert "combo kernel" in caught.value.args[0]


class TestParameters:
    def test_named_like_options_they_are_never_touched(self, shim, npu):
        kernel = named_like_options[(4,)](*POINTERS, 4096, multibuffer=True, num_warps=64)
        assert kernel.src.constants == {"multibuffer": True, "num_warps": 64}

    def test_named_like_foreign_ones_they_are_never_touched(self, shim, npu):
        kernel = foreign_parameter[(4,)](*POINTERS[:1], kpack=64)
        assert kernel.src.constants == {"kpack": 64}
        assert tally.current().rows == ()


@triton.jit
def foreign_parameter(x_ptr, kpack: triton.language.constexpr):
    triton.language.store(x_ptr + triton.language.arange(0, kpack), 0.0)


class TestTuning:
    def test_every_candidate_lives(self, shim, npu):
        sizes = [{"auto_blockify_size": size} for size in (2, 4, 8)]
        configs = [triton.Config({"XBLOCK": 64, **size}) for size in sizes]
        tuner = triton.autotune(configs=configs, key=["n"])(add_kernel)
        with pytest.warns(AbsentOptionWarning) as caught:
            kernel = tuner[(4,)](*POINTERS, 4096)
        assert len(caught) == 1
        assert kernel.hash == tuned(triton.Config({"XBLOCK": 64})).hash
        assert list(tuner.configs_timings) == configs


class TestOnceAndForAll:
    def test_a_warning_names_key_value_kernel_and_releases(self, shim, npu):
        with pytest.warns(AbsentOptionWarning) as caught:
            launch(npu, **ABSENT)
        message = str(caught[0].message)
        for word in ("auto_blockify_size", "=2", "add_kernel", "triton-ascend 3.2.0", "3.2.1"):
            assert word in message
        assert caught[0].filename == __file__

    def test_one_warning_over_all_ways(self, shim, npu):
        assert [outcome(way, npu, ABSENT) for way in WAYS] == [[AbsentOptionWarning], *[[]] * 5]

    def test_one_warning_over_all_threads(self, shim, npu):
        start = threading.Barrier(8)

        def work(size):
            start.wait()
            options(npu, auto_blockify_size=size)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            threads = [threading.Thread(target=work, args=(size,)) for size in range(2, 10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert [warning.category for warning in caught] == [AbsentOptionWarning]
        assert tally.current().count(Outcome.IGNORED) == 8

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("option", [ABSENT, FOREIGN], ids=["absent", "foreign"])
    def test_strict_mode_makes_it_an_error(self, shim, npu, way, option):
        shim.enable(strict=True)
        # A tuner skips such a candidate, and goes on with the other one.
        if way in (config_dict, config_keyword):
            way(npu, **option)
            assert tally.current().count(Outcome.REFUSED) > 0
            assert tally.current().count(Outcome.IGNORED) == 0
        else:
            with pytest.raises(CompileOptionError, match=next(iter(option))):
                way(npu, **option)

    @pytest.mark.parametrize("way", WAYS)
    def test_warnings_as_errors_raise_every_time(self, shim, npu, way):
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(AbsentOptionWarning):
                    way(npu, **ABSENT)


class TestInMemoryCache:
    """A launch whose kernel is in the in-memory cache does not come by."""

    @pytest.mark.parametrize("option", [{}, ABSENT, {"multibuffer": False}], ids=["plain", "absent", "given"])
    def test_the_second_launch_parses_nothing(self, shim, npu, monkeypatch, option):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AbsentOptionWarning)
            first = launch(npu, **option)
        with monkeypatch.context() as patched:
            patched.setattr(generations.npu_backend_class(), "parse_options", None)
            assert launch(npu, **option) is first

    def test_the_launch_itself_is_not_wrapped(self, shim):
        assert triton.JITFunction.run.__module__ == "triton.runtime.jit"
        assert not hasattr(triton.JITFunction.run, "__wrapped__")


class TestOptionShapes:
    """The same on stand-in backends of the shapes that other releases have."""

    @pytest.mark.parametrize("shape", SHAPES)
    def test_an_absent_option_is_left_out_and_an_installed_one_arrives(self, shape):
        with backend_shape(shape):
            plain = launch(None)
            triton_ascend_compat.enable()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                kernel = launch(None, **ABSENT)
            categories = [warning.category for warning in caught]
            has_it = shape == "3.2.1"
            assert getattr(kernel.metadata, "auto_blockify_size", None) == (2 if has_it else None)
            assert (kernel.hash != plain.hash) == has_it
            # The backend that retired it says so itself.
            expected = {"3.2.0": [AbsentOptionWarning], "3.2.1": [], "late-2026": [FutureWarning]}
            assert categories == expected[shape]

    @pytest.mark.parametrize("shape", SHAPES)
    def test_foreign_and_unknown_ones(self, shape):
        with backend_shape(shape):
            with pytest.raises(KeyError):
                launch(None, **FOREIGN)
            triton_ascend_compat.enable()
            with pytest.warns(AbsentOptionWarning, match="HIP"):
                assert launch(None, **FOREIGN).hash == launch(None).hash
            with pytest.raises(KeyError, match="nearest known names: multibuffer"):
                launch(None, **UNKNOWN)

    def test_three_sizes_are_three_kernels_where_the_backend_has_the_option(self):
        with backend_shape("3.2.1"):
            triton_ascend_compat.enable()
            assert len({launch(None, auto_blockify_size=size).hash for size in (1, 2, 4, 8)}) == 4

    def test_derived_fields_are_the_backends(self):
        """`compile` hands the parsed options back to the backend, derived fields included."""
        with backend_shape("late-2026"):
            triton_ascend_compat.enable()
            assert launch(None, compile_mode="simt_only").metadata.is_pure_simt is True
            assert tally.current().rows == ()
