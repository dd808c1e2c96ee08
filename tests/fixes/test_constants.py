"""A leaked option arrives as if it had been asked for properly: on the real triton-ascend 3.2.0 wheel, with
the offline mode in the place of CANN."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import subprocess
import sys
import warnings

import pytest

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource, compile, make_backend  # noqa: E402
from triton.compiler.errors import (  # noqa: E402
    CompilationError,
    CompileTimeAssertionFailure,
    MLIRCompilationError,
)
from triton.runtime.errors import OutOfResources  # noqa: E402

from tests.kernels import SIGNATURE, add_kernel, maybe_scaled, named_like_options  # noqa: E402
from triton_ascend_compat import generations  # noqa: E402
from triton_ascend_compat.decision.policy import read_installed  # noqa: E402
from triton_ascend_compat.errors import AbsentOptionWarning, CompileOptionError  # noqa: E402

BLOCK = {"XBLOCK": 1024}

_backend = generations.npu_backend_class()
INSTALLED = read_installed(_backend)
DEFAULTS = make_backend(GPUTarget("npu", "Ascend910B2", 0)).parse_options({})


def other_value(name):
    """A value of the option's type that is not its default."""
    words = {"compile_mode": "unstructured_in_simt", "parallel_mode": "simt"}
    if name in words:
        return words[name]
    default = getattr(DEFAULTS, name)
    annotation = INSTALLED.types[name].lower()
    if "bool" in annotation:
        return not default
    if "int" in annotation:
        return (default or 0) + 1
    if "tuple" in annotation:
        return tuple(default[:1]) if isinstance(default[0], str) else (2, *default[1:])
    if "dict" in annotation:
        return {}
    return "other"


ONE_BY_ONE = [{name: other_value(name)} for name in INSTALLED.types]
PAIRS = [{**first, **second} for first, second in itertools.combinations(ONE_BY_ONE, 2)]


def source(constants, signature=SIGNATURE, kernel=add_kernel):
    return ASTSource(kernel, signature, constants)


def result_of(kernel):
    """What must be equal between two compiles: hash, IR of every stage, metadata."""
    return kernel.hash, dict(kernel.asm), kernel.metadata._asdict()


def test_without_the_shim_it_is_the_reported_error(npu):
    with pytest.raises(ValueError, match="'multibuffer' is not in list") as caught:
        compile(source({**BLOCK, "multibuffer": False}), target=npu.target)
    assert type(caught.value) is ValueError


def test_every_field_of_the_backends_options_is_offered():
    assert set(INSTALLED.types) == {field.name for field in dataclasses.fields(DEFAULTS)}


@pytest.mark.parametrize("options", ONE_BY_ONE, ids=lambda options: next(iter(options)))
def test_leaky_and_clean_compile_to_the_same_kernel(shim, npu, fresh_cache, options):
    clean_cache = fresh_cache("clean")
    clean = compile(source(BLOCK), target=npu.target, options=options)
    leaky_cache = fresh_cache("leaky")
    leaky = compile(source({**BLOCK, **options}), target=npu.target)
    assert result_of(leaky) == result_of(clean)
    assert _kernel_folders(leaky_cache) == _kernel_folders(clean_cache)
    plain = compile(source(BLOCK), target=npu.target)
    # The backend derives some fields from others (parallel_mode from compile_mode): then nothing differs.
    assert (leaky.hash == plain.hash) == (make_backend(npu.target).parse_options(options) == DEFAULTS)


def _kernel_folders(cache):
    return {path.parent.name for path in cache.glob("*/*.json")}


def test_pairs_give_the_same_key_and_the_same_ttir(shim, npu):
    from triton._C.libtriton import ir

    backend = make_backend(npu.target)

    def key_and_ttir(src, options):
        parsed = backend.parse_options(dict(options, **src.parse_options()))
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        module = src.make_ir(parsed, backend.get_codegen_implementation(), backend.get_module_map(), context)
        return src.hash(), parsed, parsed.hash(), str(module)

    for options in PAIRS:
        assert key_and_ttir(source({**BLOCK, **options}), {}) == key_and_ttir(source(BLOCK), options), options


def test_the_value_is_in_the_metadata_and_the_constants_are_clean(shim, npu):
    kernel = compile(source({"multibuffer": False, **BLOCK, "num_stages": 3}), target=npu.target)
    assert kernel.metadata.multibuffer is False
    assert kernel.metadata.num_stages == 3
    assert kernel.src.constants == BLOCK


def test_a_second_compile_is_a_cache_hit(shim, npu, fresh_cache, monkeypatch):
    fresh_cache("one")
    first = compile(source({**BLOCK, "multibuffer": False}), target=npu.target)
    # A hit reads the cache only: with the front end gone, a miss would fail.
    monkeypatch.setattr(ASTSource, "make_ir", None)
    second = compile(source({**BLOCK, "multibuffer": False}), target=npu.target)
    assert result_of(second) == result_of(first)


@pytest.mark.parametrize("by_keyword", [False, True])
def test_the_callers_dicts_are_never_changed(shim, npu, by_keyword):
    constants = {"XBLOCK": 1024, "multibuffer": False}
    signature = {**SIGNATURE, "multibuffer": "constexpr"}
    before = dict(constants), dict(signature)
    options = {"num_warps": 2}
    if by_keyword:
        src = ASTSource(fn=add_kernel, signature=signature, constants=constants, attrs=None)
    else:
        src = ASTSource(add_kernel, signature, constants)
    compile(src, target=npu.target, options=options)
    assert (constants, signature) == before
    assert options == {"num_warps": 2}
    assert src.constants == BLOCK
    assert src.signature == SIGNATURE


def test_constants_keep_their_order_and_their_none(shim, npu):
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    constants = {"XBLOCK": 64, "multibuffer": True, "scale": None}
    src = ASTSource(maybe_scaled, signature, constants)
    compile(src, target=npu.target)
    assert list(src.constants.items()) == [("XBLOCK", 64), ("scale", None)]


def test_parameters_named_like_options_stay_parameters(shim, npu):
    constants = {"multibuffer": True, "num_warps": 64, "num_stages": 2}
    kernel = compile(ASTSource(named_like_options, SIGNATURE, constants), target=npu.target)
    assert kernel.src.constants == {"multibuffer": True, "num_warps": 64}
    assert kernel.metadata.num_stages == 2
    assert kernel.metadata.num_warps == DEFAULTS.num_warps


@pytest.mark.parametrize("wrap", ["constexpr", "numpy"])
def test_wrapped_values_hash_like_plain_ones(shim, npu, wrap):
    if wrap == "constexpr":
        values = {"multibuffer": triton.language.constexpr(False), "num_warps": triton.language.constexpr(2)}
    else:
        numpy = pytest.importorskip("numpy")
        values = {"multibuffer": numpy.bool_(False), "num_warps": numpy.int32(2)}
    leaky = compile(source({**BLOCK, **values}), target=npu.target)
    clean = compile(source(BLOCK), target=npu.target, options={"multibuffer": False, "num_warps": 2})
    assert leaky.hash == clean.hash
    assert type(leaky.metadata.num_warps) is int


@pytest.mark.parametrize(("key", "value"), [("multibuffer", "yes"), ("num_warps", 2.5), ("compile_mode", 1)])
def test_a_value_of_the_wrong_type_is_refused(shim, npu, key, value):
    with pytest.raises(CompileOptionError) as caught:
        compile(source({**BLOCK, key: value}), target=npu.target)
    message = str(caught.value)
    assert key in message
    assert repr(value) in message
    assert INSTALLED.types[key] in message


def test_the_leaked_value_wins_and_the_difference_is_logged(shim, npu, caplog):
    with caplog.at_level("INFO", logger="triton_ascend_compat"):
        kernel = compile(
            source({**BLOCK, "num_warps": 8, "num_stages": 2}),
            target=npu.target,
            options={"num_warps": 2, "num_stages": 2},
        )
    assert kernel.metadata.num_warps == 8
    conflicts = [record.getMessage() for record in caplog.records if "replaces" in record.getMessage()]
    assert len(conflicts) == 1
    assert "num_warps=8" in conflicts[0]


def test_a_moved_key_is_a_line_of_debug_log(shim, npu, caplog):
    with caplog.at_level("DEBUG", logger="triton_ascend_compat"):
        compile(source({**BLOCK, "multibuffer": False}), target=npu.target)
    assert any("multibuffer=False" in record.getMessage() for record in caplog.records)


class TestAbsentHere:
    """3.2.0 has no `auto_blockify_size`; other releases have."""

    def test_it_is_left_out_with_one_warning(self, shim, npu):
        clean = compile(source(BLOCK), target=npu.target)
        with pytest.warns(AbsentOptionWarning) as caught:
            kernels = [
                compile(source({**BLOCK, "auto_blockify_size": size}), target=npu.target)
                for size in (2, 4, 8)
            ]
        assert len(caught) == 1
        message = str(caught[0].message)
        for word in ("auto_blockify_size", "=2", "add_kernel", "triton-ascend 3.2.0", "3.2.1"):
            assert word in message
        assert caught[0].filename == __file__
        assert {kernel.hash for kernel in kernels} == {clean.hash}

    def test_strict_mode_makes_it_an_error(self, shim, npu):
        shim.enable(strict=True)
        with pytest.raises(CompileOptionError, match="auto_blockify_size"):
            compile(source({**BLOCK, "auto_blockify_size": 2}), target=npu.target)

    def test_warnings_as_errors_raise_every_time(self, shim, npu):
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(AbsentOptionWarning):
                    compile(source({**BLOCK, "auto_blockify_size": 2}), target=npu.target)


class TestHandsOff:
    """What is not leaked, and what is not for npu, is as it is without the shim."""

    def test_clean_sources_are_the_same(self, shim, npu):
        constants = dict(BLOCK)
        with_shim = compile(source(constants), target=npu.target)
        assert with_shim.src.constants is constants
        with_shim_vars = set(vars(with_shim.src))
        shim.disable()
        without = compile(source(constants), target=npu.target)
        assert result_of(with_shim) == result_of(without)
        assert with_shim_vars == set(vars(without.src))

    @pytest.mark.parametrize("constants", [None, {}, {0: 1}, {("XBLOCK",): 1}], ids=str)
    def test_odd_constants_end_the_same_way(self, npu, constants):
        import triton_ascend_compat

        def outcome():
            try:
                return ASTSource(add_kernel, SIGNATURE, constants).constants
            except TypeError as error:
                return type(error), str(error)

        without = outcome()
        triton_ascend_compat.enable()
        try:
            assert outcome() == without
        finally:
            triton_ascend_compat.disable()

    @pytest.mark.parametrize(
        ("arguments", "keywords"),
        [
            ((add_kernel, SIGNATURE, {**BLOCK, "multibuffer": True}, None, "one too many"), {}),
            ((add_kernel, SIGNATURE, {**BLOCK, "multibuffer": True}), {"constants": {}}),
            ((add_kernel, SIGNATURE), {"constants": {**BLOCK, "multibuffer": True}, "nonsense": 1}),
            ((add_kernel,), {"constants": {**BLOCK, "multibuffer": True}}),
        ],
        ids=["too many", "twice", "unknown keyword", "no signature"],
    )
    def test_a_wrong_call_fails_the_same_way(self, arguments, keywords):
        import triton_ascend_compat

        def failure():
            with pytest.raises(TypeError) as caught:
                ASTSource(*arguments, **keywords)
            return str(caught.value)

        without = failure()
        triton_ascend_compat.enable()
        try:
            assert failure() == without
        finally:
            triton_ascend_compat.disable()

    @pytest.mark.parametrize("key", ["multibuffer", "auto_blockify_size", "nobody_knows"])
    @pytest.mark.parametrize("target", [GPUTarget("cpu", "generic", 0), GPUTarget("cuda", 80, 32)], ids=str)
    def test_other_targets_end_the_same_way(self, key, target):
        import triton_ascend_compat

        constants = {**BLOCK, key: 2}

        def outcome():
            src = source(constants)
            try:
                compile(src, target=target)
            except Exception as error:
                return type(error), str(error), src.constants is constants
            return None

        without = outcome()
        assert without is not None
        triton_ascend_compat.enable()
        try:
            kind, text, _ = outcome()
        finally:
            triton_ascend_compat.disable()
        assert (kind, text) == without[:2]

    def test_a_source_tried_for_cpu_first_still_compiles_for_npu(self, shim, npu):
        constants = {**BLOCK, "multibuffer": False}
        src = source(constants)
        with pytest.raises(ValueError, match=r"^'multibuffer' is not in list$"):
            compile(src, target=GPUTarget("cpu", "generic", 0))
        assert src.constants is constants
        assert compile(src, target=npu.target).metadata.multibuffer is False


#: A key that nobody knows: what the user reads, and that every tuner in use skips the candidate.
MISSPELT = {"XBLOCK": 1024, "auto_blockfy_size": 2}


def attempt(constants, npu):
    return compile(ASTSource(add_kernel, SIGNATURE, constants), target=npu.target)


def test_the_message_says_what_was_wrong_and_what_would_be_right(shim, npu):
    with pytest.raises(CompileOptionError) as caught:
        attempt(MISSPELT, npu)
    message = str(caught.value)
    assert "'auto_blockfy_size' is not in list" in message
    assert "auto_blockify_size" in message
    assert "add_kernel(x_ptr, y_ptr, out_ptr, n, XBLOCK)" in message
    assert "kernels.py:" in message
    assert "\n" not in message
    assert caught.value.keys == ("auto_blockfy_size",)


def test_all_refused_keys_are_named_at_once(shim, npu):
    with pytest.raises(CompileOptionError) as caught:
        attempt({**MISSPELT, "num_warp": 4, "multibuffer": "yes"}, npu)
    assert caught.value.keys == ("auto_blockfy_size", "num_warp", "multibuffer")
    assert all(repr(key) in str(caught.value) for key in caught.value.keys)


def test_it_is_refused_every_time(shim, npu):
    src = ASTSource(add_kernel, SIGNATURE, MISSPELT)
    for _ in range(2):
        with pytest.raises(CompileOptionError):
            compile(src, target=npu.target)


def test_it_survives_pickling(shim, npu):
    with pytest.raises(CompileOptionError) as caught:
        attempt(MISSPELT, npu)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is type(caught.value)
    assert str(copy) == str(caught.value)
    assert copy.keys == caught.value.keys


def test_it_unpickles_where_nothing_was_imported_yet(shim, npu, tmp_path):
    with pytest.raises(CompileOptionError) as caught:
        attempt(MISSPELT, npu)
    (tmp_path / "error").write_bytes(pickle.dumps(caught.value))
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))"
    printed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "error")], check=True, capture_output=True, text=True
    ).stdout
    assert printed.strip() == str(caught.value)


#: What each tuner treats as "skip this candidate", read from its source.
SKIPPED_BY = {
    "triton 3.2-3.9 autotuner": (OutOfResources, CompileTimeAssertionFailure),
    "triton-ascend 3.2.0 autotuner": (OutOfResources, CompileTimeAssertionFailure, MLIRCompilationError),
    "torch 2.13 Inductor": (OutOfResources,),
    "torch_npu 2.13 triton_experimental": (MLIRCompilationError, CompilationError, OutOfResources),
    "a caller that looks for a ValueError": (ValueError,),
}


@pytest.mark.parametrize("skipped", SKIPPED_BY.values(), ids=SKIPPED_BY)
def test_a_tuner_goes_on_with_the_next_candidate(shim, npu, skipped):
    candidates = [MISSPELT, {"XBLOCK": 1024, "multibuffer": "yes"}, {"XBLOCK": 1024, "multibuffer": False}]
    compiled = []
    for candidate in candidates:
        try:
            compiled.append(attempt(candidate, npu))
        except skipped:
            continue
    assert [kernel.metadata.multibuffer for kernel in compiled] == [False]


def test_without_the_shim_that_loop_dies(npu):
    with pytest.raises(ValueError, match="is not in list"):  # noqa: PT012 - the loop is what is tested
        for candidate in (MISSPELT, {"XBLOCK": 1024}):
            try:
                attempt(candidate, npu)
            except OutOfResources:
                continue


def test_ast_to_ttir_alone_refuses_too(shim):
    from triton._C.libtriton import ir
    from triton.backends.ascend.compiler import NPUOptions
    from triton.compiler.code_generator import ast_to_ttir

    def to_ttir(constants):
        context = ir.context()
        ir.load_dialects(context)
        src = ASTSource(add_kernel, SIGNATURE, constants)
        return ast_to_ttir(add_kernel, src, context, NPUOptions(), {}, {})

    assert str(to_ttir({"XBLOCK": 1024, "multibuffer": False})) == str(to_ttir({"XBLOCK": 1024}))
    with pytest.raises(CompileOptionError, match="auto_blockfy_size"):
        to_ttir(MISSPELT)
