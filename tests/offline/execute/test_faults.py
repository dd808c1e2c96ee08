"""What goes wrong in a computed launch is said, by name, and does not end the run."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.offline.execute import kernels_wrong as kernels
from triton_ascend_compat.offline import Pointer, Session, offline
from triton_ascend_compat.offline.execute import (
    ExecutionFault,
    NotExecutedWarning,
    UnwrittenWarning,
    calling,
    guarding,
)

A = np.arange(64, dtype=np.float32)


def still_computes() -> bool:
    out = np.zeros_like(A)
    kernels.copied[(4,)](A, out, 64, 16)
    return bool((out == A).all())


def test_a_write_behind_the_end_is_named_with_kernel_config_argument_program_and_distance(
    computing: Session,
) -> None:
    out = np.full(50, 7, np.float32)
    with pytest.raises(ExecutionFault) as caught:
        kernels.copied[(4,)](A, out, 64, 16)
    told = "kernel copied [X=16]: program (3, 0, 0) wrote 0 to 56 bytes behind the end of o (200 bytes)"
    assert str(caught.value) == told
    assert (out == 7).all(), "a launch that went wrong leaves its arguments alone"
    assert computing.executor.tally.faults == {told: 1}
    assert still_computes()


@pytest.mark.parametrize(
    ("by", "told"), [(-3, "0 to 12 bytes before the start of o"), (8, "behind the end of o")]
)
def test_a_write_at_either_side_is_found(computing: Session, by: int, told: str) -> None:
    with pytest.raises(ExecutionFault, match=told):
        kernels.shifted[(1,)](A, np.zeros_like(A), by, 64)


def test_scattered_writes_are_found(computing: Session) -> None:
    index = np.arange(64, dtype=np.int32)
    index[5] = 64 + 100
    with pytest.raises(ExecutionFault, match="wrote 400 to 404 bytes behind the end of o"):
        kernels.scattered[(1,)](A, index, np.zeros_like(A), 64)


@pytest.mark.parametrize("far", [2**30, -(2**30)])
def test_a_wild_store_costs_its_own_process_only(computing: Session, far: int) -> None:
    index = np.arange(64, dtype=np.int32)
    index[5] = far
    with pytest.raises(ExecutionFault, match=r"kernel scattered .* crashed: SIG(SEGV|BUS)"):
        kernels.scattered[(1,)](A, index, np.zeros_like(A), 64)
    assert still_computes()


@pytest.mark.parametrize(
    ("far", "told"), [(2**30, "crashed"), (40, "wrote 16 to 20 bytes behind the end of o")]
)
def test_the_first_program_that_goes_wrong_is_named(computing: Session, far: int, told: str) -> None:
    places = np.zeros(24, np.int32)
    places[[21, 23]] = far
    with pytest.raises(ExecutionFault, match=rf"kernel one_each: program \(1, 2, 1\) {told}"):
        kernels.one_each[(4, 3, 2)](places, np.zeros(36, np.float32))
    assert still_computes()


def test_a_program_that_waits_for_a_later_one_is_ended(
    computing: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(guarding, "TIME_LIMIT", 0.5)
        with pytest.raises(ExecutionFault, match=r"kernel waits: did not end within 0\.5 s"):
            kernels.waits[(2,)](np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert still_computes()


def test_what_is_tried_in_a_forked_process_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "TIME_LIMIT", 0.5)
    with pytest.raises(ExecutionFault, match=r"^did not end within 0\.5 s"):
        calling._try(lambda *_: time.sleep(60), ())


def test_a_result_that_depends_on_memory_behind_an_array_is_said(computing: Session) -> None:
    out = np.zeros(1, np.float32)
    with pytest.warns(UnwrittenWarning, match=r"kernel unmasked \[X=64\]: o depends on memory"):
        kernels.unmasked[(1,)](A[:60].copy(), out, 60, 64)
    assert np.isnan(out[0]), "and looks like no result"


def test_arguments_that_share_memory_are_one_array(computing: Session) -> None:
    whole = np.arange(128, dtype=np.float32)
    kernels.copied[(4,)](whole[:64], whole[64:], 64, 16)
    assert (whole[64:] == A).all()


def test_an_address_that_leads_nowhere_is_the_kernels_error(computing: Session) -> None:
    with pytest.raises(ExecutionFault, match=r"kernel through_pointer .*crashed: SIGSEGV"):
        kernels.through_pointer[(1,)](np.array([16], np.int64), np.zeros_like(A), 64)
    assert still_computes()


@pytest.mark.parametrize("mode", ["computing", "unguarded"])
def test_what_cannot_be_computed_is_said_and_left_alone(mode: str, request: pytest.FixtureRequest) -> None:
    session = request.getfixturevalue(mode)
    out = np.full(64, 7, np.float32)
    with pytest.warns(NotExecutedWarning, match="kernel assembly .* not executed: it has inline assembly"):
        kernels.assembly[(1,)](A, out, 64)
    with pytest.warns(NotExecutedWarning, match="its argument a is a Pointer, which has no memory"):
        kernels.copied[(4,)](Pointer("fp32"), out, 64, 16)
    with pytest.warns(NotExecutedWarning, match="it has no linalg text"):
        kernels.copied[(4,)](A, out, 64, 16, force_simt_only=True)
    assert (out == 7).all()
    tally = session.executor.tally
    assert (tally.computed, sum(tally.refused.values()), session.launches) == (0, 3, 3)
    assert "not executed: assembly: it has inline assembly (1 launches)" in tally.lines()
    assert still_computes()


def test_trial_launches_of_a_tuner_are_not_computed(computing: Session) -> None:
    import triton

    configs = [triton.Config({"X": size}) for size in (16, 32, 64)]
    tuned = triton.autotune(configs, key=["n"])(kernels.increased)
    array = A.copy()
    tuned[lambda meta: (triton.cdiv(64, meta["X"]),)](array, 64)
    assert (array == A + 1).all()
    tally = computing.executor.tally
    assert (tally.computed, tally.trials) == (1, computing.launches - 1)


def test_nor_are_those_of_a_benchmark(computing: Session) -> None:
    import triton

    array = A.copy()
    assert triton.testing.do_bench(lambda: kernels.increased[(4,)](array, 64, 16)) == float("inf")
    assert (array == A).all()


def test_without_execute_nothing_is_computed() -> None:
    out = np.zeros_like(A)
    with offline() as session:
        kernels.copied[(4,)](A, out, 64, 16)
    assert session.executor is None
    assert not out.any()


def test_the_hivm_stage_runs_beside_it() -> None:
    with offline(hivm=True, execute=True) as session:
        assert still_computes()
    assert session.records[-1].hivm
    assert session.executor.tally.computed == 1


def test_inner_sessions_compute_for_themselves(computing: Session) -> None:
    with offline() as inner:
        out = np.zeros_like(A)
        kernels.copied[(4,)](A, out, 64, 16)
        assert not out.any()
    assert inner.launches == 1
    assert still_computes()


def test_a_run_leaves_no_process_behind() -> None:
    program = (
        "import numpy as np\n"
        "from tests.offline.execute.kernels_wrong import copied\n"
        "from triton_ascend_compat.offline import offline\n"
        "from triton_ascend_compat.offline.execute.guarding import GUARD\n"
        "with offline(execute=True):\n"
        "    copied[(1,)](np.ones(64, np.float32), np.ones(64, np.float32), 64, 64)\n"
        "print(GUARD._process.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
