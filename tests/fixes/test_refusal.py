"""A key that nobody knows: what the user reads, and that every tuner in use skips the candidate."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

triton = pytest.importorskip("triton")

from triton.compiler import ASTSource, compile  # noqa: E402
from triton.compiler.errors import (  # noqa: E402
    CompilationError,
    CompileTimeAssertionFailure,
    MLIRCompilationError,
)
from triton.runtime.errors import OutOfResources  # noqa: E402

from tests.kernels import SIGNATURE, add_kernel  # noqa: E402
from triton_ascend_compat.errors import CompileOptionError  # noqa: E402

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
