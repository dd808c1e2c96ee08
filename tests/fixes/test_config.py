"""Options that are keywords of `triton.Config(...)`."""

from __future__ import annotations

import pytest

triton = pytest.importorskip("triton")

import triton_ascend_compat  # noqa: E402
from tests.fixes.test_launch import config_keyword, tuned  # noqa: E402
from tests.kernels import add_kernel  # noqa: E402
from triton_ascend_compat.decision.plan import Outcome, Where  # noqa: E402
from triton_ascend_compat.errors import AbsentOptionWarning  # noqa: E402
from triton_ascend_compat.telling import tally, tell  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh():
    add_kernel.cache.clear()
    add_kernel.binder = None
    tally.forget()
    tell.forget_warnings()
    yield
    triton_ascend_compat.disable()


def test_a_config_keyword_that_the_backend_has_arrives(npu):
    keyword = {"enable_nd2nz_on_vector": True}
    assert config_keyword(npu, **keyword).metadata.enable_nd2nz_on_vector is False  # dropped
    triton_ascend_compat.enable()
    add_kernel.cache.clear()
    assert config_keyword(npu, **keyword).metadata.enable_nd2nz_on_vector is True


def test_what_config_itself_takes_stays_there(shim):
    given = {"XBLOCK": 64}
    config = triton.Config(given, multibuffer=False, num_warps=2, unit_flag=None)
    assert config.kwargs is given
    assert config.multibuffer is False


def test_the_callers_dict_is_not_changed(shim):
    given = {"XBLOCK": 64}
    config = triton.Config(given, enable_nd2nz_on_vector=True)
    assert given == {"XBLOCK": 64}
    assert config.kwargs == {"XBLOCK": 64, "enable_nd2nz_on_vector": True}


def test_a_keyword_that_nobody_knows_is_said_to_be_dropped(shim):
    with pytest.warns(AbsentOptionWarning, match="XBLOK.*kernel parameter") as caught:
        triton.Config({}, XBLOK=64)
    assert caught[0].filename == __file__


def test_an_absent_option_is_left_out_there_and_says_so_itself(shim, npu):
    with pytest.warns(AbsentOptionWarning, match=r"left out of triton\.Config") as caught:
        config = triton.Config({"XBLOCK": 64}, auto_blockify_size=2)
    assert config.kwargs == {"XBLOCK": 64}
    assert caught[0].filename == __file__
    (row,) = tally.current().rows
    assert (row.fate.where, row.fate.outcome) == (Where.CONFIG, Outcome.IGNORED)
    assert row.location.startswith(f"{__file__}:")
    assert tuned(config).hash == tuned(triton.Config({"XBLOCK": 64})).hash


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("option", [{"auto_blockify_size": None}, {"auto_blockify_size": 1}], ids=str)
def test_one_that_asks_for_nothing_is_no_news(shim, strict, option):
    shim.enable(strict=strict)
    assert triton.Config({"XBLOCK": 64}, **option).kwargs == {"XBLOCK": 64}


def _keeping(kept, below):
    """A Config as backends of late 2026 have it, a stand-in: it takes any keyword, and keeps those in `kept`,
    or all where that is None, as attributes."""

    def __init__(self, kwargs, num_warps=4, num_stages=2, num_ctas=1, maxnreg=None, pre_hook=None, **extra):
        below(self, kwargs, num_warps, num_stages, num_ctas, maxnreg, pre_hook)
        vars(self).update({name: value for name, value in extra.items() if kept is None or name in kept})

    return __init__


@pytest.mark.parametrize("ours_first", [False, True])
@pytest.mark.parametrize("kept", [None, ["ubtune_cfg"]], ids=["all", "one"])
def test_what_a_config_keeps_is_its_own(monkeypatch, ours_first, kept):
    original = triton.Config.__init__
    if ours_first:
        triton_ascend_compat.enable(strict=True)
    with monkeypatch.context() as patched:
        patched.setattr(triton.Config, "__init__", _keeping(kept, triton.Config.__init__))
        if not ours_first:
            triton_ascend_compat.enable(strict=True)
        extra = {"ubtune_cfg": {"multibuffer": True}}
        if kept is None:
            extra.update(some_note=1, auto_blockify_size=2, enable_vf_fusion=False)
        config = triton.Config({"XBLOCK": 64}, num_warps=8, **extra)
        assert {name: vars(config)[name] for name in extra} == extra
        assert config.kwargs == {"XBLOCK": 64}
        if kept is not None and not ours_first:  # what it drops is ours to bring to the launch
            assert triton.Config({}, unit_flag=True).all_kwargs()["unit_flag"] is True
    triton_ascend_compat.disable()
    assert triton.Config.__init__ is original
