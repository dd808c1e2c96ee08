"""The autotuner of the installed Triton (on triton-ascend: its own) skips a refused candidate.

Its launch path hands no stray key to `ASTSource`, so what it tunes here is a kernel of ours that compiles
the way the frontends with the bug do: every key of the config among the constants.
"""

from __future__ import annotations

import logging

import pytest
import triton
from kernels import add_one
from support import NPU, UNKNOWN, make_source, outcome, raw_error
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import KernelInterface


class MergesEverything(KernelInterface):
    def __init__(self):
        self.fn = add_one.fn
        self.compiled = []

    def run(self, *args, grid, warmup=False, **kwargs):
        launch = {"num_ctas", "num_stages", "num_warps", "maxnreg", "ir_override"}
        ours = {"num_buffers_warp_spec", "num_consumer_groups", "reg_dec_producer", "reg_inc_consumer"}
        constants = {key: value for key, value in kwargs.items() if key not in launch | ours}
        kernel = triton.compile(make_source(constants), target=NPU)
        self.compiled.append(kernel)
        return kernel


def tune(*candidates):
    kernel = MergesEverything()
    tuner = Autotuner(
        kernel,
        list(add_one.arg_names),
        [triton.Config({"BLOCK": 128, **candidate}) for candidate in candidates],
        key=[],
        reset_to_zero=None,
        restore_value=None,
        do_bench=lambda call, quantiles: [call() or 1.0] * 3,
    )
    best = tuner.run(0, 0, 100, grid=(1,))
    return tuner, kernel, best


PROVES = ("Triton's autotuner", "bad candidate skipped in one line, all bad ends in our message")


@pytest.mark.proves(*PROVES)
def test_bad_candidate_among_good_ones(request, caplog):
    candidates = [{UNKNOWN: 2}, {"multibuffer": False}, {"set_workspace_multibuffer": "many"}]
    assert outcome(tune, *candidates) == raw_error(UNKNOWN)
    request.getfixturevalue("shim")
    with caplog.at_level(logging.WARNING, "triton_ascend_compat"):
        tuner, _, best = tune(*candidates)
    assert best.metadata.multibuffer is False
    skipped = [timing[0] == float("inf") for timing in tuner.configs_timings.values()]
    assert skipped == [True, False, True]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    for line, key in zip(lines, (UNKNOWN, "set_workspace_multibuffer")):
        assert key in line
        assert "add_one" in line
        assert "\n" not in line


@pytest.mark.proves(*PROVES)
def test_every_candidate_is_bad(request):
    candidates = [{UNKNOWN: 2}, {UNKNOWN: 4}]
    assert outcome(tune, *candidates) == raw_error(UNKNOWN)
    request.getfixturevalue("shim")
    kind, text = outcome(tune, *candidates)
    assert issubclass(kind, ValueError)
    for part in (f"'{UNKNOWN}' is not in list", "add_one", "auto_blockify_size"):
        assert part in text


@pytest.mark.proves(*PROVES)
def test_every_candidate_leaks(shim):
    _, kernel, _ = tune({"multibuffer": False}, {"multibuffer": True})
    assert [k.metadata.multibuffer for k in kernel.compiled] == [False, True, False]
