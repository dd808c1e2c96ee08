"""Options that a backend has not, under its old name, or of another backend, given to a launch: on the real
launch path of each Triton generation."""

from __future__ import annotations

import functools
import warnings

import pytest
import triton
from kernels import add_one
from support import IS_STANDIN, SHAPE, active_npu_driver, outcome

from triton_ascend_compat.errors import AbsentOptionWarning
from triton_ascend_compat.offline.driver import Pointer

proves = functools.partial(pytest.mark.proves, "Launches and autotune configs")

#: An option that each shape lacks and another release has.
ABSENT = {"enable_vf_fusion": True}


@pytest.fixture(autouse=True)
def driver():
    """The stand-in's driver; triton-ascend's own backend launches in the offline mode already."""
    if IS_STANDIN:
        with active_npu_driver():
            yield
    else:
        yield


def kernel():
    """A kernel that nobody has launched yet."""
    return triton.jit(add_one.fn)


def launch(fn=None, **options):
    return (fn or kernel())[(4,)](Pointer("fp32"), Pointer("fp32"), 4096, BLOCK=128, **options)


def told(call, *args, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*args, **kwargs)
    return result, [warning.category for warning in caught]


@proves("an absent option is left out with one warning")
def test_absent(request):
    assert outcome(launch, **ABSENT)[0] is KeyError
    request.getfixturevalue("shim")
    compiled, categories = told(launch, **ABSENT)
    assert categories == [AbsentOptionWarning]
    assert compiled.hash == launch().hash


@proves("another backend's option is left out, and it is said whose it is")
def test_foreign(request):
    assert outcome(launch, waves_per_eu=2)[0] is KeyError
    request.getfixturevalue("shim")
    with pytest.warns(AbsentOptionWarning, match="HIP"):
        compiled = launch(waves_per_eu=2)
    assert compiled.hash == launch().hash


@proves("an unknown keyword keeps Triton's error, with the nearest names")
def test_unknown(request):
    before = outcome(launch, multibufer=True)
    request.getfixturevalue("shim")
    kind, text = outcome(launch, multibufer=True)
    assert kind is before[0] is KeyError
    assert text.startswith(before[1][:-1])
    assert "nearest known names: multibuffer" in text
    reserved = "device_type"
    assert outcome(launch, **{reserved: "npu"})[0] is AssertionError


@proves("a second launch of the same kernel parses no options")
def test_in_memory(request, monkeypatch):
    request.getfixturevalue("shim")
    fn = kernel()
    first, _ = told(launch, fn, **ABSENT)
    from triton_ascend_compat import generations

    with monkeypatch.context() as patched:
        patched.setattr(generations.npu_backend_class(), "parse_options", None)
        assert launch(fn, **ABSENT) is first


@proves("autotune candidates with an absent option live")
def test_autotune(request):
    request.getfixturevalue("shim")
    configs = [triton.Config({"BLOCK": block, **ABSENT}) for block in (64, 128)]
    tuner = triton.autotune(configs=configs, key=["n"])(kernel())
    compiled, categories = told(tuner[(4,)], Pointer("fp32"), Pointer("fp32"), 4096)
    assert categories.count(AbsentOptionWarning) == 1
    assert compiled.metadata.num_warps == 4


@proves("an option that is a keyword of Config arrives")
def test_config_keyword(request):
    request.getfixturevalue("shim")
    config = triton.Config({"BLOCK": 128}, set_workspace_multibuffer=2)
    compiled = launch(**{key: value for key, value in config.all_kwargs().items() if key != "BLOCK"})
    assert compiled.metadata.set_workspace_multibuffer == 2


@pytest.mark.skipif(SHAPE != "late-2026", reason="the other shapes have the old names")
@proves("an old name that the backend renames arrives")
def test_renamed(request):
    assert outcome(launch, inter_cache_num=3)[0] is KeyError
    request.getfixturevalue("shim")
    assert launch(inter_cache_num=3).hash == launch(buf_slot_num_of_crosscore=3).hash


@pytest.mark.skipif(SHAPE != "late-2026", reason="the other shapes have the option, or never had it")
@proves("a name that the backend retired keeps the backend's own warning")
def test_retired(request):
    request.getfixturevalue("shim")
    compiled, categories = told(launch, auto_blockify_size=2)
    assert categories == [FutureWarning]
    assert compiled.hash == launch().hash
