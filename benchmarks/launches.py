"""What a launch takes whose kernel is in the in-memory cache, with a stand-in launcher that does nothing."""

from __future__ import annotations

import tempfile
import warnings

from measuring import Comparison, compare, timed
from sources import add, switched

import triton_ascend_compat
from triton_ascend_compat.offline import offline
from triton_ascend_compat.offline.driver import Pointer


def hot_launch(pairs: int) -> Comparison:
    """With the shim against without it, with options that the backend has."""
    arguments = (Pointer("fp32"), Pointer("fp32"), Pointer("fp32"), 4096)

    def work() -> object:
        return add[(16,)](*arguments, XBLOCK=256, multibuffer=False, num_warps=4)

    with tempfile.TemporaryDirectory() as cache, offline(cache=cache):
        timer = timed(work, 500)
        return compare(switched(False, timer), switched(True, timer), pairs)


def hot_launch_with_absent_option(pairs: int) -> Comparison:
    """With an option that this release has not, against one that it has, both with the shim on."""
    arguments = (Pointer("fp32"), Pointer("fp32"), Pointer("fp32"), 4096)

    def installed() -> object:
        return add[(16,)](*arguments, XBLOCK=256, set_workspace_multibuffer=2)

    def absent() -> object:
        return add[(16,)](*arguments, XBLOCK=256, auto_blockify_size=2)

    triton_ascend_compat.enable()
    with tempfile.TemporaryDirectory() as cache, offline(cache=cache), warnings.catch_warnings():
        warnings.simplefilter("ignore", triton_ascend_compat.AbsentOptionWarning)
        return compare(timed(installed, 500), timed(absent, 500), pairs)
