"""Callers that build sources themselves: Triton's own tools, and callers of our own that do what public
frontends do (each says whose way it is)."""

from __future__ import annotations

import json
import runpy
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import kernels
import pytest
import triton
from kernels import add_one, add_optional
from support import (
    BY_NAME,
    HAS_CUDA,
    IS_STANDIN,
    NPU,
    SHAPE,
    THIRD,
    UNKNOWN,
    active_npu_driver,
    codegen_implementation,
    compile_npu,
    outcome,
    raw_error,
    signature_for,
)
from triton.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

from triton_ascend_compat import AbsentOptionWarning

REAL_ONLY = {"BLOCK": 128}
LEAKY = {**REAL_ONLY, "multibuffer": False}
ERROR = raw_error("multibuffer")


# Callers of our own


def merges_every_config_key(config: triton.Config) -> object:
    """As torch_npu's triton_experimental did before August 2026, and TransformerEngine's JAX side does."""
    meta = {"constants": {}, "signature": signature_for(add_one, REAL_ONLY)}
    meta["constants"].update(config.kwargs)
    if not BY_NAME:
        meta["signature"].update(dict.fromkeys(config.kwargs, "constexpr"))
    source = ASTSource(add_one, meta["signature"], meta["constants"])
    return triton.compile(source, target=NPU, options={"num_warps": config.num_warps})


@pytest.mark.proves("a producer that merges Config.kwargs into constants", "leaky candidates compile")
def test_merged_config_kwargs(request):
    configs = [triton.Config({**REAL_ONLY, "multibuffer": flag}, num_warps=4) for flag in (False, True)]
    for config in configs:
        assert outcome(merges_every_config_key, config) == ERROR
    request.getfixturevalue("shim")
    compiled = [merges_every_config_key(config) for config in configs]
    assert [kernel.metadata.multibuffer for kernel in compiled] == [False, True]
    assert [dict(config.kwargs) for config in configs] == [{**LEAKY}, {**LEAKY, "multibuffer": True}]


def tries_both_names(constants):
    """A common idiom of code that runs on Triton 3.2 and later."""
    signature = signature_for(add_one, REAL_ONLY)
    try:
        return ASTSource(fn=add_one, constexprs=constants, signature=signature)
    except TypeError:
        return ASTSource(fn=add_one, constants=constants, signature=signature)


@pytest.mark.proves("a producer that tries constexprs=, then constants=", "leaky call compiles")
def test_tries_both_names(request):
    def call():
        return triton.compile(tries_both_names(LEAKY), target=NPU)

    assert outcome(call) == ERROR
    request.getfixturevalue("shim")
    assert call().metadata.multibuffer is False
    other = "constexprs" if BY_NAME else "constants"
    with pytest.raises(TypeError, match=other):
        ASTSource(fn=add_one, signature={}, **{other: LEAKY})


def lowers_itself(constants, keyword, options=None):
    """As jax-triton and vendor tests do: `ast_to_ttir`, looked up on its module, and no `compile`."""
    import triton.compiler.code_generator as code_generator
    from triton._C.libtriton import ir

    source = (
        ASTSource(fn=add_one, signature=signature_for(add_one, REAL_ONLY), **{THIRD: constants})
        if keyword
        else ASTSource(add_one, signature_for(add_one, REAL_ONLY), constants)
    )
    backend = make_backend(NPU)
    parsed = backend.parse_options(options or {})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    rest = {
        "context": context,
        "options": parsed,
        "codegen_fns": codegen_implementation(backend, parsed),
        "module_map": backend.get_module_map(),
    }
    if keyword:
        return str(code_generator.ast_to_ttir(add_one, source, **rest))
    return str(code_generator.ast_to_ttir(add_one, source, *rest.values()))


@pytest.mark.proves("make_ir and ast_to_ttir without compile", "leaky call lowers, unknown key refused")
@pytest.mark.parametrize("keyword", [False, True], ids=["positional", "keyword"])
def test_ast_to_ttir(keyword, request):
    clean = lowers_itself(REAL_ONLY, keyword)
    assert outcome(lowers_itself, LEAKY, keyword) == ERROR
    request.getfixturevalue("shim")
    assert lowers_itself(LEAKY, keyword) == clean
    kind, text = outcome(lowers_itself, {**REAL_ONLY, UNKNOWN: 1}, keyword)
    assert issubclass(kind, ValueError)
    assert f"'{UNKNOWN}' is not in list" in text


@pytest.mark.proves("make_ir and ast_to_ttir without compile", "leaky call lowers, unknown key refused")
def test_ast_to_ttir_taken_early(request, monkeypatch):
    """A reference to the function itself is out of reach of the shim; an unknown key still is no success."""
    from triton.compiler import code_generator

    taken_early = code_generator.ast_to_ttir
    clean = lowers_itself(REAL_ONLY, False)
    request.getfixturevalue("shim")
    assert code_generator.ast_to_ttir is not taken_early
    monkeypatch.setattr(code_generator, "ast_to_ttir", taken_early)
    assert lowers_itself(LEAKY, False) == clean
    found = outcome(lowers_itself, {**REAL_ONLY, UNKNOWN: 1}, False)
    # Triton 3.3 counts the entries of the signature instead of looking their names up.
    assert found == raw_error(UNKNOWN) or issubclass(found[0], CompilationError)


@pytest.mark.proves("make_ir and ast_to_ttir without compile", "tuple keys beside leaked ones")
def test_tuple_keys(request):
    if BY_NAME:
        pytest.skip("constants are keyed by name only up to Triton 3.2")
    constants = {(add_one.arg_names.index("BLOCK"),): 128}
    clean = lowers_itself(constants, False)
    assert outcome(lowers_itself, {**constants, "multibuffer": False}, False) == ERROR
    request.getfixturevalue("shim")
    assert lowers_itself({**constants, "multibuffer": False}, False) == clean


# Triton's own


@pytest.mark.proves("triton.tools.compile", "same outcome with the shim (it cannot leak)")
def test_tools_compile(request, own_cache, monkeypatch):
    if not HAS_CUDA:
        pytest.skip("triton-ascend's tools/compile.py imports the nvidia backend, which it does not carry")

    def run(folder):
        monkeypatch.setenv("TRITON_CACHE_DIR", str(own_cache / folder))
        (own_cache / folder).mkdir()
        argv = [
            "compile.py", kernels.__file__, "-n", "add_one", "-s", "*fp32:16,*fp32:16,i32,128", "-g", "1,1,1",
            "-o", str(own_cache / folder / "out"),
        ]  # fmt: skip
        monkeypatch.setattr(sys, "argv", argv)
        tool = Path(triton.__file__).parent / "tools" / "compile.py"
        with active_npu_driver():
            try:
                runpy.run_path(str(tool), run_name="__main__")
                ended = None
            except Exception as error:
                # Up to Triton 3.3 the tool asks for a cubin when all is compiled, whatever the target.
                ended = (type(error), str(error))
        stored = sorted(path.name for path in (own_cache / folder).glob("*/*.npubin"))
        keys = sorted(path.parent.name for path in (own_cache / folder).glob("*/*.npubin"))
        assert stored, ended
        return ended, stored, keys

    before = run("without")
    request.getfixturevalue("shim")
    assert run("with") == before


@pytest.mark.proves("JITFunction.preload", "leaky data compiles where it can leak (3.2), else the same")
def test_preload(request):
    hook_data = []

    def hook(**kwargs):
        hook_data.append(kwargs["compile"]["specialization_data"])
        return False

    holder, name = (JITFunction, "cache_hook")
    if not hasattr(JITFunction, "cache_hook"):
        holder, name = triton.knobs.runtime, "jit_cache_hook"
    with active_npu_driver():
        setattr(holder, name, hook)
        try:
            add_optional.warmup(
                MockPointer(), None, MockPointer(), 100, BLOCK=128, grid=(1,), multibuffer=False
            )
        finally:
            setattr(holder, name, None)
        (data,) = hook_data
        leaky = json.loads(data)
        if "constants" in leaky:
            leaky["constants"]["unit_flag"] = True
            assert outcome(add_optional.preload, json.dumps(leaky)) == raw_error("unit_flag")
        before = add_optional.preload(data)
        request.getfixturevalue("shim")
        after = add_optional.preload(data)
        assert (after.hash, after.metadata) == (before.hash, before.metadata)
        assert after.metadata.multibuffer is False
        if "constants" in leaky:
            kernel = add_optional.preload(json.dumps(leaky))
            assert kernel.metadata.unit_flag is True
            assert kernel.metadata.multibuffer is False


class MockPointer:
    """What Triton's binder needs of a tensor argument."""

    dtype = "fp32"

    @staticmethod
    def data_ptr():
        return 0

    @staticmethod
    def ptr_range():
        return 0


@pytest.mark.proves("JITFunction, asynchronous mode", "leaky candidates stay apart")
def test_asynchronous_mode(request):
    _async_compile = pytest.importorskip(
        "triton.runtime._async_compile", reason="Triton has no asynchronous mode before 3.5"
    )
    candidates = [{**REAL_ONLY, "num_warps": size} for size in (2, 4, 8)]

    def compile_all():
        with active_npu_driver(), ThreadPoolExecutor(2) as executor:
            backend = make_backend(NPU)
            with _async_compile.AsyncCompileMode(executor):
                futures = [
                    add_one._do_compile(
                        f"key {index}", signature_for(add_one, REAL_ONLY), 0, constants,
                        backend.parse_options({}), {}, warmup=True,
                    )
                    for index, constants in enumerate(candidates)
                ]  # fmt: skip
            return [future.result().metadata.num_warps for future in futures]

    assert outcome(compile_all) == raw_error("num_warps")
    request.getfixturevalue("shim")
    assert compile_all() == [2, 4, 8]


@pytest.mark.proves("Gluon", "leaky source compiles")
def test_gluon(request):
    gluon = pytest.importorskip("triton.experimental.gluon", reason="Triton has no Gluon before 3.4")
    from kernels_gluon import store_arange
    from triton.experimental.gluon._runtime import GluonASTSource

    assert gluon
    leaky = {**REAL_ONLY, "multibuffer": False, "num_warps": 4}

    def call(constants, options=None):
        source = GluonASTSource(store_arange, {"out_ptr": "*fp32", "BLOCK": "constexpr"}, dict(constants))
        # Triton 3.4 asks the active driver for the target, whatever target is given.
        with active_npu_driver():
            return triton.compile(source, target=NPU, options=options)

    clean = call(REAL_ONLY, {"multibuffer": False, "num_warps": 4})
    assert outcome(call, leaky) == ERROR
    request.getfixturevalue("shim")
    assert call(leaky).hash == clean.hash
    assert call(leaky).metadata.multibuffer is False
    kind, text = outcome(call, {**REAL_ONLY, UNKNOWN: 1})
    assert issubclass(kind, ValueError)
    assert f"'{UNKNOWN}' is not in list" in text


@pytest.mark.proves("ASTSource and triton.compile", "the backend's own renames and warnings are left to it")
def test_retired_and_renamed_options(shim):
    def warned(leaked):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return compile_npu(leaked), [warning.category for warning in caught]

    plain = compile_npu({})
    if SHAPE == "late-2026":
        kernel, categories = warned({"enable_linearize": True})
        assert (kernel.hash, categories) == (plain.hash, [FutureWarning])
        kernel, categories = warned({"force_simt_only": True, "inter_cache_num": 3})
        assert (kernel.metadata.compile_mode, kernel.metadata.buf_slot_num_of_crosscore) == ("simt_only", 3)
        assert categories == []
    elif IS_STANDIN:
        kernel, categories = warned({"enable_linearize": True})
        assert (kernel.hash, categories) == (plain.hash, [AbsentOptionWarning])
    else:
        kernel, categories = warned({"enable_linearize": True})
        assert (kernel.metadata.enable_linearize, categories) == (True, [])
