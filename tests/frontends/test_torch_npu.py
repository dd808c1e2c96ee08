"""torch_npu as published, imported without CANN, up to compiled candidates on triton-ascend's own backend.

Stand-ins: the CANN libraries (stub_cann.py), the device (devices.py and below), the driver. Real: both
heuristics modules, their config generators, their tuners and threads, triton-ascend's front end and backend.

The published 2.13.0 filters Config.kwargs, so it no longer has the bug. Its tuners get it back by what they
copy their constants from, `triton_meta`: see `leaking`.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import logging
import warnings
from types import SimpleNamespace

import devices
import pytest
import torch
from kernels import add_five
from support import UNKNOWN, active_npu_driver, outcome, raw_error, signature_for
from test_inductor import attrs
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.hints import HeuristicType
from torch._inductor.runtime.triton_heuristics import NoTritonConfigsError
from triton.backends import backends

from triton_ascend_compat import AbsentOptionWarning
from triton_ascend_compat.decision import policy

ELEMENTS = 2**28


@pytest.fixture(scope="module")
def torch_npu():
    """torch_npu with the answers that it would ask a device for."""
    module = importlib.import_module("torch_npu")
    torch.npu.current_device = lambda: 0
    torch.npu.get_device_properties = lambda device=None: SimpleNamespace(
        name="Ascend910B2", cube_core_num=24, vector_core_num=48, multi_processor_count=48
    )
    importlib.import_module("torch_npu.npu._backends").get_soc_version = lambda: 223
    module.npu.get_soc_version = lambda: 223
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its triton-ascend has no device
        for name in ("runtime.triton_heuristics", "triton_experimental.npu_triton_heuristics"):
            importlib.import_module(f"torch_npu._inductor.{name}")
    return module


@pytest.fixture
def experimental(torch_npu):
    return torch_npu._inductor.triton_experimental.npu_triton_heuristics


@pytest.fixture
def regular(torch_npu):
    return torch_npu._inductor.runtime.triton_heuristics


@pytest.fixture(autouse=True)
def npu_device(torch_npu, monkeypatch):
    devices.register()
    monkeypatch.setattr(triton_helpers, "set_driver_to_gpu", lambda: None)  # it looks for an active driver
    with active_npu_driver():
        yield


@pytest.fixture
def threads(request, torch_npu, regular, monkeypatch):
    """Have both tuners compile on one thread or on four."""
    number = request.param
    monkeypatch.setattr(regular.npu_config, "precompile_thread_num", number)
    monkeypatch.setattr(regular, "compile_thread_pool", regular.CompileThreadPool())
    with torch._inductor.config.patch(compile_threads=number):
        yield number


THREADS = pytest.mark.parametrize("threads", [1, 4], ids=["1 thread", "4 threads"], indirect=True)


@pytest.fixture
def has_auto_blockify_size(monkeypatch):
    """triton-ascend's own options class with the field that 3.2.1 added: a stand-in for that release."""
    namespace = inspect.unwrap(backends["ascend"].compiler.parse_options).__globals__
    before = namespace["NPUOptions"]
    fields = [("auto_blockify_size", int, dataclasses.field(default=1))]
    grown = dataclasses.make_dataclass("NPUOptions", fields, bases=(before,), frozen=True)
    monkeypatch.setitem(namespace, "NPUOptions", grown)
    # Without it the option has no effect, of which the shim warns.
    monkeypatch.setenv("TRITON_ALL_BLOCKS_PARALLEL", "1")
    policy.read_installed.cache_clear()
    yield
    policy.read_installed.cache_clear()


def triton_meta():
    return {
        "signature": signature_for(add_five, {"XBLOCK": 1}),
        "device": devices.PROPERTIES,
        "constants": {},
        "configs": [attrs()],
    }


INDUCTOR_META = {
    "kernel_name": "triton_poi_fused_add_0",
    "num_load": 5,
    "num_reduction": 0,
    "mutated_arg_names": [],
}


def leaking(module, leaked_of):
    """The tuner of `module`, with `leaked_of(config)` among the constants of each candidate, the way it was
    when all of Config.kwargs went there."""

    class Leaking(module.NPUCachingAutotuner):
        def _precompile_config(self, config):
            clean, own = copy.copy(config), copy.copy(self)
            leaked = leaked_of(config)
            clean.extra_options = None
            own.triton_meta = {**self.triton_meta, "constants": {**self.triton_meta["constants"], **leaked}}
            result = super(Leaking, own)._precompile_config(clean)
            result.config = config
            return result

        def _make_ttir_module_from_cfg(self, config):
            own = copy.copy(self)
            own.triton_meta = {**self.triton_meta, "constants": dict(leaked_of(config))}
            return super(Leaking, own)._make_ttir_module_from_cfg(config)

    return Leaking


def reported_case(experimental):
    """The candidates that torch_npu's own generator makes for five fp32 loads over 2**28 elements."""
    return experimental._pw1d_formula_configs({"x": ELEMENTS}, triton_meta(), dict(INDUCTOR_META), 0)


def make_tuner(tuner_class, configs):
    return tuner_class(
        add_five,
        triton_meta=triton_meta(),
        configs=list(configs),
        save_cache_hook=None,
        mutated_arg_names=[],
        optimize_mem=True,
        heuristic_type=HeuristicType.POINTWISE,
        size_hints={"x": ELEMENTS},
        inductor_meta=dict(INDUCTOR_META),
        filename=__file__,
    )


def compiled(tuner_class, configs):
    tuner = make_tuner(tuner_class, configs)
    tuner.precompile(warm_cache_only=True)
    # Candidates come back in the order in which their threads end.
    return {describe(result.config): result.kernel for result in tuner.compile_results}


def describe(config):
    return config.kwargs["XBLOCK"], (getattr(config, "extra_options", None) or {}).get("auto_blockify_size")


def extra_options(config):
    return dict(getattr(config, "extra_options", None) or {})


CANDIDATES = {(1520, None), (3032, None), (4096, None), (4096, 2), (4096, 4), (4096, 8)}
PLAIN = {candidate for candidate in CANDIDATES if candidate[1] is None}


@pytest.mark.proves("torch_npu triton_experimental", "as published: same kernels with the shim")
@THREADS
def test_published(experimental, threads, request):
    configs = reported_case(experimental)
    assert {describe(config) for config in configs} == CANDIDATES

    def hashes():
        found = compiled(experimental.NPUCachingAutotuner, configs)
        return {name: kernel.hash for name, kernel in found.items()}

    before = hashes()
    assert before.keys() == CANDIDATES
    request.getfixturevalue("shim")
    # It passes the option in `options=`, where 3.2.0 drops it: now with a word.
    with pytest.warns(AbsentOptionWarning, match="auto_blockify_size"):
        after = hashes()
    assert after == before


@pytest.mark.proves("torch_npu triton_experimental", "the reported case on triton-ascend 3.2.0")
@THREADS
def test_reported_case(experimental, threads, request):
    leaky = leaking(experimental, extra_options)
    configs = reported_case(experimental)
    # 2.13.0 skips what dies of this ValueError: the three leaky candidates are lost, in silence.
    assert compiled(leaky, configs).keys() == PLAIN
    request.getfixturevalue("shim")
    with pytest.warns(AbsentOptionWarning, match="auto_blockify_size") as caught:
        kernels = compiled(leaky, configs)
    assert len(caught) == 1
    assert kernels.keys() == CANDIDATES
    assert {kernels[4096, size].hash for size in (None, 2, 4, 8)} == {kernels[4096, None].hash}


@pytest.mark.proves(
    "torch_npu triton_experimental", "the reported case, options class as in 3.2.1 (stand-in)"
)
@THREADS
def test_reported_case_with_the_option(experimental, threads, has_auto_blockify_size, request):
    leaky = leaking(experimental, extra_options)
    configs = reported_case(experimental)
    assert compiled(leaky, configs).keys() == PLAIN
    request.getfixturevalue("shim")
    asked_properly = compiled(experimental.NPUCachingAutotuner, configs)
    kernels = compiled(leaky, configs)
    assert [kernels[4096, size].metadata.auto_blockify_size for size in (2, 4, 8)] == [2, 4, 8]
    assert len({kernel.hash for kernel in kernels.values()}) == len(CANDIDATES)
    assert {name: kernel.hash for name, kernel in kernels.items()} == {
        name: kernel.hash for name, kernel in asked_properly.items()
    }


@pytest.mark.proves("torch_npu triton_experimental", "one, some and all candidates leak")
@pytest.mark.parametrize(
    "leaky_ones", [{(1520, None)}, {(1520, None), (4096, 2)}, CANDIDATES], ids=["one", "some", "all"]
)
def test_leaky_candidates(experimental, leaky_ones, request):
    everything = leaky_ones == CANDIDATES  # also the small blocks that the tuner falls back to
    leaky = leaking(
        experimental, lambda c: {"multibuffer": False} if everything or describe(c) in leaky_ones else {}
    )
    configs = reported_case(experimental)
    if everything:
        assert outcome(compiled, leaky, configs) == raw_error("multibuffer")
    else:
        assert compiled(leaky, configs).keys() == CANDIDATES - leaky_ones
    request.getfixturevalue("shim")
    kernels = compiled(leaky, configs)
    assert {name for name, kernel in kernels.items() if kernel.metadata.multibuffer is False} == leaky_ones
    assert kernels.keys() == CANDIDATES


@pytest.mark.proves("torch_npu runtime heuristics", "leaky candidates compile")
@THREADS
def test_regular_heuristics(regular, experimental, threads, request):
    leaky = leaking(regular, lambda config: {"multibuffer": config.kwargs["XBLOCK"] > 2000})
    configs = [config for config in reported_case(experimental) if describe(config)[1] is None]
    kind, text = outcome(compiled, leaky, configs)
    assert issubclass(kind, NoTritonConfigsError)
    assert "'multibuffer' is not in list" in text
    request.getfixturevalue("shim")
    kernels = compiled(leaky, configs)
    assert {name[0]: kernel.metadata.multibuffer for name, kernel in kernels.items()} == {
        1520: False,
        3032: True,
        4096: True,
    }


@pytest.mark.proves(
    "torch_npu runtime heuristics",
    "the path that calls parse_options and ast_to_ttir itself (one binding a stand-in)",
)
def test_regular_heuristics_ttir(regular, experimental, request, monkeypatch):
    # A stand-in for a binding that triton-ascend has since 3.2.1; TTIR of this kernel needs no dialect of it.
    dialects = SimpleNamespace(load_dialects=lambda context: None)
    monkeypatch.setattr("triton._C.libtriton.ascend.ir", dialects, raising=False)
    config = reported_case(experimental)[0]

    def lower(leaked):
        tuner = make_tuner(leaking(regular, lambda _: leaked), [config])
        return str(tuner._make_ttir_module_from_cfg(config))

    clean = lower({})
    assert outcome(lower, {"multibuffer": False}) == raw_error("multibuffer")
    request.getfixturevalue("shim")
    assert lower({"multibuffer": False}) == clean
    kind, text = outcome(lower, {UNKNOWN: 2})
    assert issubclass(kind, ValueError)
    assert f"'{UNKNOWN}' is not in list" in text


PROVES = ("torch_npu's tuners", "bad candidate skipped in one line, all bad ends in our message")


@pytest.mark.proves(*PROVES)
@pytest.mark.parametrize("which", ["experimental", "regular"])
@THREADS
def test_bad_candidate_among_good_ones(which, threads, experimental, request, caplog):
    module = request.getfixturevalue(which)
    leaky = leaking(module, lambda c: {UNKNOWN: 2} if describe(c) == (1520, None) else {"multibuffer": False})
    configs = [config for config in reported_case(experimental) if describe(config)[1] is None]
    request.getfixturevalue("shim")
    with caplog.at_level(logging.WARNING, "triton_ascend_compat"):
        kernels = compiled(leaky, configs)
    assert {name[0] for name in kernels} == {3032, 4096}
    assert {kernel.metadata.multibuffer for kernel in kernels.values()} == {False}
    (line,) = [record.getMessage() for record in caplog.records if record.name == "triton_ascend_compat"]
    for part in (f"'{UNKNOWN}' is not in list", "add_five"):
        assert part in line
    assert "\n" not in line


@pytest.mark.proves(*PROVES)
@pytest.mark.parametrize("which", ["experimental", "regular"])
def test_every_candidate_is_bad(which, experimental, request):
    module = request.getfixturevalue(which)
    leaky = leaking(module, lambda config: {UNKNOWN: 2})
    configs = reported_case(experimental)
    kind, text = outcome(compiled, leaky, configs)
    assert f"'{UNKNOWN}' is not in list" in text
    request.getfixturevalue("shim")
    with pytest.raises(NoTritonConfigsError) as caught:
        compiled(leaky, configs)
    for part in ("No valid triton configs", f"'{UNKNOWN}' is not in list", "add_five", "auto_blockify_size"):
        assert part in str(caught.value)
    assert kind is not None
