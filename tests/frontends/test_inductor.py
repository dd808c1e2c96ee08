"""torch Inductor as published, compiling for a device of type npu."""

from __future__ import annotations

import logging
import pickle

import devices
import pytest
import torch
import triton
from kernels import add_one, add_optional
from support import SHAPE, UNKNOWN, active_npu_driver, compile_npu, outcome, raw_error, signature_for
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.hints import HeuristicType
from torch._inductor.runtime.triton_heuristics import CachingAutotuner, NoTritonConfigsError
from torch._inductor.utils import triton_version_uses_attrs_dict

ERROR = raw_error("multibuffer")


@pytest.fixture(autouse=True)
def npu_device(monkeypatch):
    devices.register()
    monkeypatch.setattr(triton_helpers, "set_driver_to_gpu", lambda: None)  # it looks for an active driver
    with active_npu_driver():
        yield


def attrs():
    if triton_version_uses_attrs_dict():
        return {}
    from triton.backends.compiler import AttrsDescriptor

    return AttrsDescriptor()


def autotuner(*kwargs, cls=CachingAutotuner, fn=add_one):
    constants = {"BLOCK": 128}
    signature = signature_for(fn, constants)
    return cls(
        fn,
        triton_meta={
            "signature": signature,
            "device": devices.PROPERTIES,
            "constants": {},
            "configs": [attrs()],
        },
        configs=[triton.Config({**constants, **each}, num_warps=4, num_stages=1) for each in kwargs],
        save_cache_hook=None,
        mutated_arg_names=["out_ptr"],
        optimize_mem=True,
        heuristic_type=HeuristicType.POINTWISE,
        size_hints={"x": 1024},
        inductor_meta={"kernel_name": "add_one", "grid_type": "Grid1D"},
        filename=__file__,
    )


def compiled(*kwargs):
    tuner = autotuner(*kwargs)
    tuner.precompile(warm_cache_only=True)
    return [result.kernel for result in tuner.compile_results]


@pytest.mark.proves("torch Inductor, CachingAutotuner", "one, some and all configs leak")
@pytest.mark.parametrize(
    "kwargs",
    [
        [{"multibuffer": False}, {}, {}],
        [{"multibuffer": False}, {}, {"multibuffer": True}],
        [{"multibuffer": False}, {"multibuffer": True}],
    ],
    ids=["one", "some", "all"],
)
def test_leaky_configs(kwargs, request):
    assert outcome(compiled, *kwargs) == ERROR
    request.getfixturevalue("shim")
    kernels = compiled(*kwargs)
    default = compile_npu({}).metadata.multibuffer
    assert [k.metadata.multibuffer for k in kernels] == [each.get("multibuffer", default) for each in kwargs]


@pytest.mark.proves(
    "torch Inductor, CachingAutotuner", "auto_blockify_size in 2, 4, 8 as this backend has it"
)
def test_three_candidates(request):
    candidates = [{"auto_blockify_size": size} for size in (2, 4, 8)]
    assert outcome(compiled, *candidates) == raw_error("auto_blockify_size")
    request.getfixturevalue("shim")
    if SHAPE == "3.2.1":
        kernels = compiled(*candidates)
        assert [kernel.metadata.auto_blockify_size for kernel in kernels] == [2, 4, 8]
        assert len({kernel.hash for kernel in kernels}) == 3
    else:
        # 3.2.0: ours, of an absent option; late 2026: the backend's own, of a retired one.
        with pytest.warns(Warning, match="auto_blockify_size"):
            kernels = compiled(*candidates)
        assert len({kernel.hash for kernel in kernels}) == 1


@pytest.mark.proves("torch Inductor, CachingAutotuner", "to launchers and the benchmark loop")
def test_to_the_launcher(request, monkeypatch):
    kwargs = [{"multibuffer": False}, {"multibuffer": True}]

    def tune():
        tuner = autotuner(*kwargs)
        tuner.precompile()
        # Nothing runs, so no time is measured either.
        monkeypatch.setattr(
            tuner, "bench", lambda launcher, *args, **kw: 1.0 + launcher.config.kwargs["multibuffer"]
        )
        tensors = torch.zeros(128), torch.zeros(128)
        tuner.autotune_to_one_config(*tensors, 128)
        return tuner

    assert outcome(tune) == ERROR
    request.getfixturevalue("shim")
    tuner = tune()
    (launcher,) = tuner.launchers
    assert launcher.config.kwargs == {"BLOCK": 128, "multibuffer": False}


PROVES = ("torch Inductor's tuner", "bad candidate skipped in one line, all bad ends in our message")


@pytest.mark.proves(*PROVES)
def test_bad_candidate_among_good_ones(request, caplog):
    kwargs = [{UNKNOWN: 2}, {"multibuffer": False}, {"set_workspace_multibuffer": "many"}]
    assert outcome(compiled, *kwargs) == raw_error(UNKNOWN)
    request.getfixturevalue("shim")
    with caplog.at_level(logging.WARNING, "triton_ascend_compat"):
        kernels = compiled(*kwargs)
    assert [kernel.metadata.multibuffer for kernel in kernels] == [False]
    ours = [record.getMessage() for record in caplog.records if record.name == "triton_ascend_compat"]
    assert len(ours) == 2
    for line, key in zip(ours, (UNKNOWN, "set_workspace_multibuffer")):
        assert key in line
        assert "\n" not in line


@pytest.mark.proves(*PROVES)
def test_every_candidate_is_bad(request):
    assert outcome(compiled, {UNKNOWN: 2}, {UNKNOWN: 4}) == raw_error(UNKNOWN)
    request.getfixturevalue("shim")
    with pytest.raises(NoTritonConfigsError) as caught:
        compiled({UNKNOWN: 2}, {UNKNOWN: 4})
    for part in ("No valid triton configs", f"'{UNKNOWN}' is not in list", "add_one", "auto_blockify_size"):
        assert part in str(caught.value)


@pytest.mark.proves("torch Inductor, generate_ttir", "same TTIR and arguments with the shim (it cannot leak)")
@pytest.mark.parametrize("option", [{}, {"multibuffer": False}], ids=["plain", "with an option"])
def test_generate_ttir(option, request):
    from torch._higher_order_ops.triton_kernel_wrap import generate_ttir

    def generate():
        kwargs = {
            "x_ptr": torch.zeros(2),
            "y_ptr": None,
            "out_ptr": torch.zeros(2),
            "n": 2,
            "BLOCK": 128,
            **option,
        }
        module, names = generate_ttir(add_optional, kwargs, {})
        return str(module), names

    before = generate()
    request.getfixturevalue("shim")
    assert generate() == before
    assert before[1] == ["x_ptr", "out_ptr", "n"]


@pytest.mark.proves("torch Inductor, generate_ttir", "same error for a config key that nobody knows")
def test_generate_ttir_unknown_key(request):
    from torch._higher_order_ops.triton_kernel_wrap import generate_ttir

    def generate():
        kwargs = {"x_ptr": torch.zeros(2), "out_ptr": torch.zeros(2), "n": 2, "BLOCK": 128, UNKNOWN: 2}
        return generate_ttir(add_one, kwargs, {})

    before = outcome(generate)
    request.getfixturevalue("shim")
    assert outcome(generate) == before


@pytest.mark.proves("torch Inductor, CachingAutotuner", "a compiled kernel survives pickling with its source")
def test_pickled_results(shim):
    tuner = autotuner({"multibuffer": False})
    tuner.precompile(warm_cache_only=True)
    taken_away = tuner.prepare_for_pickle()  # from the kernel too, which other tests need
    try:
        (result,) = pickle.loads(pickle.dumps(tuner.compile_results))
    finally:
        tuner.restore_after_unpickle(taken_away)
    assert result.kernel.metadata.multibuffer is False
    assert result.config.kwargs == {"BLOCK": 128, "multibuffer": False}
    assert "multibuffer" not in {str(key) for key in result.kernel.src.constants}
