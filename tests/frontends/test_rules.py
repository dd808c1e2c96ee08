"""The rules of the shim on the front end of the installed Triton, by what a frontend can observe.

Every test that shows something repaired also shows the original error without the shim.
"""

from __future__ import annotations

import inspect
import logging
import pickle
import threading
import warnings
from types import MappingProxyType

import pytest
import triton
from kernels import add_one, add_optional, named_like_options
from support import (
    BY_NAME,
    CUDA,
    HAS_CUDA,
    MAKE_IR_TAKES_TARGET,
    NPU,
    SHAPE,
    THIRD,
    UNKNOWN,
    artefacts,
    compile_for,
    compile_npu,
    make_ir,
    make_source,
    outcome,
    raw_error,
    signature_for,
)
from triton.compiler import ASTSource
from triton.compiler import compile as compile_taken_early

from triton_ascend_compat import AbsentOptionWarning

ERROR = raw_error("multibuffer")
REAL_ONLY = {"BLOCK": 128}
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="this Triton has no cuda backend")


def proves(what: str) -> pytest.MarkDecorator:
    return pytest.mark.proves("ASTSource and triton.compile", what)


def constants_by_name(source: ASTSource) -> dict[str, object]:
    if BY_NAME:
        return dict(source.constants)
    return {source.fn.arg_names[path[0]]: value for path, value in source.constants.items()}


# Rules 1 and 2


@proves("delivered, same as asked properly")
@pytest.mark.parametrize(
    "leaked",
    [
        {"multibuffer": False},
        {"multibuffer": True},
        {"num_warps": 8},
        {"set_workspace_multibuffer": 4},
        {"limit_auto_multi_buffer_of_local_buffer": "no-limit"},
        {"unit_flag": None},
        {"multibuffer": False, "unit_flag": True},
        {"compile_mode": "unstructured_in_simt"},
    ],
    ids=str,
)
def test_leaky_equals_clean(leaked, request, own_cache, monkeypatch):
    for key in leaked:
        assert outcome(compile_npu, leaked) == raw_error(next(iter(leaked))), key
    request.getfixturevalue("shim")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(own_cache / "clean"))
    clean = compile_npu({}, options=leaked)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(own_cache / "leaky"))
    leaky = compile_npu(leaked)
    assert artefacts(leaky) == artefacts(clean)
    for key, value in leaked.items():
        assert getattr(leaky.metadata, key) == value
    # The same key: the second finds what the first stored.
    folders = [sorted(path.name for path in (own_cache / name).iterdir()) for name in ("clean", "leaky")]
    assert folders[0] == folders[1]
    assert make_source({**REAL_ONLY, **leaked}).hash() == make_source(REAL_ONLY).hash()


@proves("delivered, same as asked properly")
def test_value_is_part_of_the_key(shim):
    assert compile_npu({"multibuffer": True}).hash != compile_npu({"multibuffer": False}).hash


@proves("auto_blockify_size in 2, 4, 8 as this backend has it")
def test_three_candidates(request):
    candidates = [{"auto_blockify_size": size} for size in (2, 4, 8)]
    for candidate in candidates:
        assert outcome(compile_npu, candidate) == raw_error("auto_blockify_size")
    request.getfixturevalue("shim")
    plain = compile_npu({})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernels = [compile_npu(candidate) for candidate in candidates]
    if SHAPE == "3.2.1":
        assert not caught
        assert [kernel.metadata.auto_blockify_size for kernel in kernels] == [2, 4, 8]
        assert len({kernel.hash for kernel in [plain, *kernels]}) == 4
    elif SHAPE == "3.2.0":
        assert [w.category for w in caught] == [AbsentOptionWarning]
        assert {kernel.hash for kernel in kernels} == {plain.hash}
    else:
        # The backend's own warning, at every compile, and none of ours.
        assert [w.category for w in caught] == [FutureWarning] * 3
        assert {kernel.hash for kernel in kernels} == {plain.hash}


# Rule 3


@proves("absent here, known elsewhere")
def test_absent_option(request):
    absent, value = ("auto_blockify_size", 2) if SHAPE == "3.2.0" else ("vf_merge_level", 2)
    assert outcome(compile_npu, {absent: value}) == raw_error(absent)
    shim = request.getfixturevalue("shim")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = compile_npu({absent: value})
        compile_npu({absent: value, "num_warps": 2})
    assert [w.category for w in caught] == [AbsentOptionWarning]
    text = str(caught[0].message)
    for part in (absent, repr(value), "add_one", triton.__version__):
        assert part in text
    assert artefacts(kernel) == artefacts(compile_npu({}))
    shim.enable(strict=True)
    kind, text = outcome(compile_npu, {absent: value})
    assert issubclass(kind, ValueError)
    assert absent in text
    shim.enable(strict=False)


# Rule 4


@proves("unknown key: a skippable error that says what was meant")
def test_unknown_key(request):
    assert outcome(compile_npu, {UNKNOWN: 2}) == raw_error(UNKNOWN)
    request.getfixturevalue("shim")
    from triton.compiler.errors import CompilationError
    from triton.runtime.autotuner import OutOfResources

    with pytest.raises(OutOfResources) as caught:
        compile_npu({UNKNOWN: 2})
    error = caught.value
    assert isinstance(error, ValueError)
    assert isinstance(error, CompilationError)
    for part in (f"'{UNKNOWN}' is not in list", "add_one", "x_ptr", "BLOCK", "auto_blockify_size"):
        assert part in str(error)
    assert "\n" not in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), str(error))


# Rule 5


@proves("the leaked value wins over options=")
@pytest.mark.parametrize("whole", [False, True], ids=["dict", "every option"])
def test_leaked_value_wins(shim, caplog, whole):
    from triton.compiler import make_backend

    asked = (
        make_backend(NPU).parse_options({"multibuffer": True}).__dict__ if whole else {"multibuffer": True}
    )
    asked = dict(asked)
    with caplog.at_level(logging.INFO, "triton_ascend_compat"):
        kernel = compile_npu({"multibuffer": False}, options=asked)
    assert kernel.metadata.multibuffer is False
    assert asked["multibuffer"] is True
    assert any("multibuffer=False" in record.getMessage() for record in caplog.records)


# Rule 6


@proves("plain values, ill-typed values")
def test_wrapped_values(shim):
    numpy = pytest.importorskip("numpy", reason="numpy is not installed in this environment")
    plain = compile_npu({"multibuffer": False, "set_workspace_multibuffer": 4})
    wrapped = compile_npu(
        {"multibuffer": triton.language.constexpr(False), "set_workspace_multibuffer": numpy.int64(4)}
    )
    assert artefacts(wrapped) == artefacts(plain)
    assert type(wrapped.metadata.set_workspace_multibuffer) is int


@proves("plain values, ill-typed values")
def test_ill_typed_value(shim):
    kind, text = outcome(compile_npu, {"num_warps": "many"})
    assert issubclass(kind, ValueError)
    for part in ("num_warps", "'many'", "int"):
        assert part in text


# Rule 7


@proves("clean calls, other keys, order and callers' objects as before")
@pytest.mark.parametrize("target", [NPU, pytest.param(CUDA, marks=needs_cuda)], ids=["npu", "cuda"])
def test_clean_call_is_untouched(target, request):
    before = artefacts(compile_for(target, REAL_ONLY))
    request.getfixturevalue("shim")
    source = make_source(REAL_ONLY)
    assert "parse_options" not in vars(source)
    assert artefacts(compile_for(target, REAL_ONLY)) == before


@proves("clean calls, other keys, order and callers' objects as before")
@pytest.mark.parametrize("key", [3, (3,), (3, 0), (9,), 3.5], ids=repr)
@pytest.mark.parametrize("beside_a_leak", [False, True])
def test_other_keys_are_as_before(key, beside_a_leak, request):
    """Int and tuple keys: what Triton makes of them, it still makes of them."""

    def attempt(constants):
        try:
            source = ASTSource(add_one, signature_for(add_one, REAL_ONLY), constants)
            return sorted(source.constants, key=str), source.hash()
        except Exception as error:
            return type(error), str(error)

    before = attempt({key: 128})
    request.getfixturevalue("shim")
    assert attempt({key: 128, **({"multibuffer": False} if beside_a_leak else {})}) == before


@proves("clean calls, other keys, order and callers' objects as before")
def test_parameters_named_like_options(request):
    constants = {"BLOCK": 128, "multibuffer": False, "num_warps": 3}
    before = artefacts(compile_npu(constants, fn=named_like_options))
    request.getfixturevalue("shim")
    assert artefacts(compile_npu(constants, fn=named_like_options)) == before
    source = make_source({**constants, "unit_flag": True}, named_like_options)
    assert constants_by_name(source) == constants


@proves("clean calls, other keys, order and callers' objects as before")
def test_callers_objects_and_order(shim):
    constants = {"multibuffer": False, "y_ptr": None, "unit_flag": True, "BLOCK": 128}
    signature = signature_for(add_optional, {"y_ptr": None, "BLOCK": 128})
    if not BY_NAME:
        # Frontends for 3.3 and later write an entry for every constant.
        signature = {"multibuffer": "constexpr", **signature, "unit_flag": "constexpr"}
    given = dict(constants), dict(signature)
    source = ASTSource(add_optional, signature, constants)
    kernel = triton.compile(source, target=NPU)
    assert (constants, signature) == given
    assert list(constants_by_name(source).items()) == [("y_ptr", None), ("BLOCK", 128)]
    assert not {"multibuffer", "unit_flag"} & set(source.signature)
    assert kernel.metadata.multibuffer is False
    assert kernel.metadata.unit_flag is True
    assert constants_by_name(kernel.src) == {"y_ptr": None, "BLOCK": 128}


@proves("clean calls, other keys, order and callers' objects as before")
def test_signature_entry_alone_is_not_a_leak(request):
    """A stray signature entry without a constant is another mistake, with its own error."""
    if BY_NAME:
        pytest.skip("signatures hold no constants up to Triton 3.2")
    signature = {**signature_for(add_one, REAL_ONLY), "multibuffer": "constexpr"}
    before = outcome(triton.compile, ASTSource(add_one, dict(signature), REAL_ONLY), target=NPU)
    request.getfixturevalue("shim")
    assert outcome(triton.compile, ASTSource(add_one, dict(signature), REAL_ONLY), target=NPU) == before


@needs_cuda
@proves("clean calls, other keys, order and callers' objects as before")
@pytest.mark.parametrize("leaked", [{"multibuffer": False}, {UNKNOWN: 2}, {"auto_blockify_size": 2}], ids=str)
def test_other_target_gives_the_original_error(leaked, request):
    before = outcome(compile_for, CUDA, {**REAL_ONLY, **leaked})
    assert before == raw_error(next(iter(leaked)))
    request.getfixturevalue("shim")
    assert outcome(compile_for, CUDA, {**REAL_ONLY, **leaked}) == before


# Rule 8


@proves("references taken early, subclasses, keywords, threads, make_ir")
def test_references_taken_before_activation(request):
    def early(constants):
        return compile_taken_early(make_source(constants), target=NPU)

    leaky = {**REAL_ONLY, "multibuffer": False}
    assert outcome(early, leaky) == ERROR
    request.getfixturevalue("shim")
    assert early(leaky).hash == compile_npu({}, {"multibuffer": False}).hash


@proves("references taken early, subclasses, keywords, threads, make_ir")
@pytest.mark.parametrize("by_keyword", [(), (THIRD,), ("fn", "signature", THIRD)], ids=str)
def test_positional_and_keyword(by_keyword, request):
    leaky = {**REAL_ONLY, "multibuffer": False}
    arguments = {"fn": add_one, "signature": signature_for(add_one, REAL_ONLY), THIRD: leaky}

    def call():
        keywords = {name: arguments[name] for name in by_keyword}
        positional = [value for name, value in arguments.items() if name not in keywords]
        return triton.compile(ASTSource(*positional, **keywords), target=NPU)

    assert outcome(call) == ERROR
    request.getfixturevalue("shim")
    assert call().metadata.multibuffer is False


class Plain(ASTSource):
    pass


class OwnOptions(ASTSource):
    """Has options of its own and does not ask its base class."""

    def parse_options(self):
        return {"num_stages": 2}


class OwnOptionsAsked(ASTSource):
    def parse_options(self):
        return {**super().parse_options(), "num_stages": 2}


class OwnInit(ASTSource):
    """Takes other arguments than its base class, and hands on keywords."""

    def __init__(self, constants):
        super().__init__(fn=add_one, signature=signature_for(add_one, REAL_ONLY), **{THIRD: constants})


class OwnIR(ASTSource):
    def make_ir(self, *args):
        return super().make_ir(*args)


@proves("references taken early, subclasses, keywords, threads, make_ir")
@pytest.mark.parametrize(
    "cls", [Plain, OwnOptions, OwnOptionsAsked, OwnInit, OwnIR], ids=lambda cls: cls.__name__
)
def test_subclasses(cls, request):
    leaky = {**REAL_ONLY, "multibuffer": False}

    def call():
        source = cls(leaky) if cls is OwnInit else make_source(leaky, cls=cls)
        return triton.compile(source, target=NPU)

    assert outcome(call) == ERROR
    request.getfixturevalue("shim")
    kernel = call()
    assert kernel.metadata.multibuffer is False
    assert (kernel.metadata.num_stages == 2) == cls.__name__.startswith("OwnOptions")


@proves("references taken early, subclasses, keywords, threads, make_ir")
@pytest.mark.parametrize("keyword", [False, True], ids=["positional", "keyword"])
def test_make_ir_without_compile(keyword, request):
    leaky = {**REAL_ONLY, "multibuffer": False}

    def call(constants):
        return make_ir(make_source(constants), keyword=keyword)

    clean = str(call(REAL_ONLY))
    assert outcome(call, leaky) == ERROR
    request.getfixturevalue("shim")
    assert str(call(leaky)) == clean
    kind, text = outcome(call, {**REAL_ONLY, UNKNOWN: 2})
    assert issubclass(kind, ValueError)
    assert f"'{UNKNOWN}' is not in list" in text


@proves("references taken early, subclasses, keywords, threads, make_ir")
def test_mapping_that_is_no_dict(shim):
    source = ASTSource(
        add_one, signature_for(add_one, REAL_ONLY), MappingProxyType({**REAL_ONLY, "multibuffer": False})
    )
    assert triton.compile(source, target=NPU).metadata.multibuffer is False


@proves("references taken early, subclasses, keywords, threads, make_ir")
def test_threads(shim):
    results = {}

    def work(size):
        results[size] = compile_npu({"num_warps": size, "multibuffer": size > 4})

    threads = [threading.Thread(target=work, args=(size,)) for size in (1, 2, 4, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {size: k.metadata.num_warps for size, k in results.items()} == {
        size: size for size in (1, 2, 4, 8)
    }
    assert {size: k.metadata.multibuffer for size, k in results.items()} == {
        1: False,
        2: False,
        4: False,
        8: True,
    }


# Rules 9 and 10


@proves("identity, signatures, wrappers of others")
def test_identity_and_signatures(request):
    def shape():
        return (
            triton.compiler.ASTSource is triton.compiler.compiler.ASTSource is ASTSource,
            ASTSource.__name__,
            [
                str(inspect.signature(getattr(ASTSource, name)))
                for name in ("__init__", "make_ir", "parse_options")
            ],
            len(inspect.signature(make_source(REAL_ONLY).make_ir).parameters),
            str(inspect.signature(triton.compile)),
            triton.compile is compile_taken_early,
        )

    before, members = shape(), dict(vars(ASTSource))
    shim = request.getfixturevalue("shim")
    assert shape() == before
    shim.enable()
    shim.disable()
    assert dict(vars(ASTSource)) == members
    assert outcome(compile_npu, {"multibuffer": False}) == ERROR


def lazily_wrapped(method):
    """Wraps as triton-ascend's later backends wrap `make_ir`: a plain function of fixed arity."""
    if MAKE_IR_TAKES_TARGET:

        def make_ir(self, target, options, codegen_fns, module_map, context):
            return method(self, target, options, codegen_fns, module_map, context)
    else:

        def make_ir(self, options, codegen_fns, module_map, context):
            return method(self, options, codegen_fns, module_map, context)

    return make_ir


@proves("identity, signatures, wrappers of others")
@pytest.mark.parametrize("when", ["before", "between", "while on"])
def test_make_ir_wrapped_by_the_backend(when, monkeypatch):
    import triton_ascend_compat

    def wrap():
        monkeypatch.setattr(ASTSource, "make_ir", lazily_wrapped(ASTSource.make_ir))

    if when == "before":
        wrap()
    triton_ascend_compat.enable()
    try:
        if when == "between":
            assert compile_npu({"multibuffer": False}).metadata.multibuffer is False
            wrap()
        elif when == "while on":
            wrap()
        assert compile_npu({"multibuffer": False, "num_warps": 2}).metadata.num_warps == 2
    finally:
        triton_ascend_compat.disable()
    assert outcome(compile_npu, {"multibuffer": False}) == ERROR


@proves("identity, signatures, wrappers of others")
def test_wrapper_on_top_survives(shim, caplog):
    ours = ASTSource.__init__
    calls = []

    def theirs(self, *args, **kwargs):
        calls.append(self)
        ours(self, *args, **kwargs)

    ASTSource.__init__ = theirs
    try:
        status = shim.disable()
        assert ASTSource.__init__ is theirs
        assert not status.active
        assert outcome(compile_npu, {"multibuffer": False}) == ERROR
        compile_npu({})
        assert calls
    finally:
        ASTSource.__init__ = ours
        shim.disable()


@proves("references taken early, subclasses, keywords, threads, make_ir")
def test_source_is_plain_data(shim):
    """Frontends pickle sources: what the shim puts there must be plain data, also where it was refused."""
    for leaked in ({"multibuffer": triton.language.constexpr(False)}, {UNKNOWN: 2}):
        source = make_source({**REAL_ONLY, **leaked})
        carried = vars(source)["parse_options"]
        plain = {key: value for key, value in vars(carried).items() if key not in ("source", "as_given")}
        assert pickle.loads(pickle.dumps(plain)) == plain


@proves("references taken early, subclasses, keywords, threads, make_ir")
def test_kernel_dump_and_override_key(shim):
    """`src.hash()` alone keys TRITON_KERNEL_DUMP: one for leaky and clean, before and after a compile."""
    source = make_source({**REAL_ONLY, "multibuffer": False})
    before = source.hash()
    triton.compile(source, target=NPU)
    assert before == source.hash() == make_source(REAL_ONLY).hash()


@proves("references taken early, subclasses, keywords, threads, make_ir")
def test_launch_of_a_leaky_kernel(request):
    """The launcher reads the constants again."""
    from support import active_npu_driver

    def call():
        with active_npu_driver() as driver:
            kernel = compile_npu({"multibuffer": False})
            kernel[(1, 1, 1)](0, 0, 100)
            return driver

    assert outcome(call) == ERROR
    request.getfixturevalue("shim")
    driver = call()
    launches = driver.launcher_cls.__call__.__globals__["LAUNCHES"]
    assert launches[-1][1].multibuffer is False


@proves("delivered, same as asked properly")
@pytest.mark.skipif(
    not hasattr(triton.compiler.compiler, "get_cache_key"), reason="this Triton has no asynchronous mode"
)
def test_the_asynchronous_mode_keeps_candidates_apart(shim):
    """It keys a compile before the source is asked for its options."""

    def key(constants, options):
        from triton.compiler.compiler import get_cache_key  # as the JIT imports it, when it needs it

        source, backend = make_source({**REAL_ONLY, **constants}), triton.compiler.make_backend(NPU)
        return get_cache_key(source, backend, backend.parse_options(dict(options)), env_vars={})

    candidates = [{"num_warps": 2}, {"num_warps": 8}, {"num_warps": 8, "multibuffer": False}]
    keys = [key(candidate, {}) for candidate in candidates]
    assert keys == [key({}, candidate) for candidate in candidates]
    assert len(set(keys)) == len(candidates)
