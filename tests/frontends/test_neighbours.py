"""Other packages that patch or watch Triton's compiler, from PyPI, active at the same time as the shim."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json

import pytest
import triton
from support import HAS_CUDA, NPU, UNKNOWN, active_npu_driver, compile_npu, make_source, outcome, raw_error

needs_triton_runner = pytest.mark.skipif(
    not HAS_CUDA,
    reason="triton-runner imports the nvidia part of libtriton, which triton-ascend does not carry",
)
needs_tritonparse = pytest.mark.skipif(
    not hasattr(triton, "knobs"),
    reason="tritonparse listens through triton.knobs, which came with Triton 3.4",
)

REAL_ONLY = {"BLOCK": 128}
LEAKY = {**REAL_ONLY, "multibuffer": False}
ERROR = raw_error("multibuffer")


@contextlib.contextmanager
def triton_runner_on():
    with active_npu_driver():  # it resolves the driver while it is being imported
        triton_runner = importlib.import_module("triton_runner")
        triton_runner.configure_jit_backend()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                yield triton_runner
        finally:
            triton_runner.restore_jit_backend()


@contextlib.contextmanager
def shim_on():
    import triton_ascend_compat

    triton_ascend_compat.enable()
    try:
        yield
    finally:
        triton_ascend_compat.disable()


@needs_triton_runner
@pytest.mark.proves("triton-runner", "active at the same time, enabled before and after")
@pytest.mark.parametrize(
    "order", [(shim_on, triton_runner_on), (triton_runner_on, shim_on)], ids=["before", "after"]
)
def test_triton_runner(order):
    with triton_runner_on():
        assert outcome(lambda: triton.compile(make_source(LEAKY), target=NPU)) == ERROR
    first, second = order
    with first(), second():
        assert triton.compile.__module__.startswith("triton_runner")
        leaky = triton.compile(make_source(LEAKY), target=NPU)
        clean = triton.compile(make_source(REAL_ONLY), target=NPU, options={"multibuffer": False})
        assert leaky.metadata.multibuffer is False
        assert leaky.hash == clean.hash
        kind, text = outcome(lambda: triton.compile(make_source({**REAL_ONLY, UNKNOWN: 1}), target=NPU))
        assert issubclass(kind, ValueError)
        assert UNKNOWN in text
    assert outcome(compile_npu, {"multibuffer": False}) == ERROR


@contextlib.contextmanager
def tritonparse_on(folder):
    structured_logging = importlib.import_module("tritonparse.structured_logging")
    structured_logging.init(str(folder))
    try:
        yield
    finally:
        structured_logging.clear_logging_config()


@needs_tritonparse
@pytest.mark.proves("tritonparse", "active at the same time, enabled before and after")
@pytest.mark.parametrize("first", ["shim", "tritonparse"])
def test_tritonparse(first, own_cache):
    folder = own_cache / "traces"
    contexts = [shim_on(), tritonparse_on(folder)]
    with contextlib.ExitStack() as stack:
        for context in contexts if first == "shim" else reversed(contexts):
            stack.enter_context(context)
        kernel = compile_npu({"multibuffer": False})
        assert kernel.metadata.multibuffer is False
    records = [
        json.loads(line)
        for path in folder.rglob("*.ndjson")
        for line in path.read_text().splitlines()
        if line
    ]
    (compilation,) = [record for record in records if record.get("event_type") == "compilation"]
    text = json.dumps(compilation["payload"]["metadata"])
    assert "multibuffer" not in json.dumps(compilation["payload"]["metadata"].get("src_constants", ""))
    assert kernel.hash in text


@needs_triton_runner
@needs_tritonparse
@pytest.mark.proves("triton-runner and tritonparse together", "in every order with the shim")
@pytest.mark.parametrize(
    "order", list(itertools.permutations(["shim", "triton-runner", "tritonparse"])), ids=", ".join
)
def test_all_three(order, own_cache):
    make = {
        "shim": shim_on,
        "triton-runner": triton_runner_on,
        "tritonparse": lambda: tritonparse_on(own_cache / "traces"),
    }
    with contextlib.ExitStack() as stack:
        for name in order:
            stack.enter_context(make[name]())
        kernel = triton.compile(make_source(LEAKY), target=NPU)
        assert kernel.metadata.multibuffer is False
        assert (
            kernel.hash
            == triton.compile(make_source(REAL_ONLY), target=NPU, options={"multibuffer": False}).hash
        )
    assert outcome(compile_npu, {"multibuffer": False}) == ERROR
