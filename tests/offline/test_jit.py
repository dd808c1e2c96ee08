"""The JIT and tuners in offline mode: they compile, launch nothing, and keep nothing for later."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import pytest
import triton
import triton.runtime.errors
from triton.compiler.errors import CompilationError
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver

import triton_ascend_compat
from tests.offline.kernels import add, broken, tuned, wide_only
from triton_ascend_compat.decision.plan import Outcome, Where
from triton_ascend_compat.errors import AbsentOptionWarning
from triton_ascend_compat.offline import Pointer, offline
from triton_ascend_compat.offline.chips import chip_named
from triton_ascend_compat.telling import tell

POINTERS = [Pointer("fp32")] * 3


def test_without_it_there_is_no_driver() -> None:
    with pytest.raises(RuntimeError, match="0 active drivers"), pytest.warns(UserWarning, match="ccec"):
        add.warmup(*POINTERS, 1000, XBLOCK=256, grid=(1,))


def test_warm_up_compiles() -> None:
    with offline() as session:
        kernel = add.warmup(*POINTERS, 1000, XBLOCK=256, grid=(1,))
    assert "func.func @add" in kernel.asm["ttadapter"]
    assert session.launches == 0


def test_a_launch_compiles_and_is_counted_only() -> None:
    with offline() as session:
        add[(4,)](*POINTERS, 1000, XBLOCK=256)
        add[lambda meta: (4,)](*POINTERS, 1000, XBLOCK=256)
    assert session.launches == 2
    assert len(session.records) == 1  # the second launch found the kernel in memory


def test_numpy_arrays_are_tensors_too() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    with offline() as session:
        add[(1,)](*[numpy.zeros(8, numpy.float16)] * 3, 8, XBLOCK=8)
    assert session.records[0].signature["x"] == "*fp16"


def test_a_scalar_of_numpy_is_what_it_is_without_the_mode() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    with offline() as session:
        add[(1,)](*POINTERS, numpy.float64(8), XBLOCK=8)  # a Python float, too
        with pytest.raises(CompilationError, match="pointer<int32>"):  # which Triton makes of any dtype
            add[(1,)](*POINTERS, numpy.int32(8), XBLOCK=8)
    assert session.records[0].signature["n"] == "fp32"


def test_what_the_backend_refuses_of_a_grid_is_refused_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_ALL_BLOCKS_PARALLEL", raising=False)
    with offline(), pytest.raises(RuntimeError, match="grid should be less than 65536"):
        add[(65536,)](*POINTERS, 1000, XBLOCK=256)


def test_each_session_compiles_for_its_own_chip() -> None:
    seen = []
    for chip in ("Ascend910B2", "Ascend910_9589"):
        with offline(chip) as session:
            add[(1,)](*POINTERS, 1000, XBLOCK=256)
        seen += [record.chip for record in session.records]
    assert seen == ["Ascend910B2", "Ascend910_9589"]


def test_the_driver_knows_the_cores_of_the_chip() -> None:
    with offline("Ascend910B3"):
        properties = driver.active.utils.get_device_properties(driver.active.get_current_device())
    assert properties["num_aicore"] == chip_named("Ascend910B3").cube_cores
    assert properties["num_vectorcore"] == 2 * properties["num_aicore"]


def test_a_tuner_compiles_every_config_and_times_none() -> None:
    with offline() as session:
        tuner = tuned([64, 128, 256])
        tuner[(1,)](*POINTERS, 1000)
        assert list(tuner.configs_timings.values()) == [[0.0, 0.0, 0.0]] * 3
    assert [record.constexprs["XBLOCK"] for record in session.records] == [64, 128, 256]
    assert session.launches == 4  # one for each config, and one for the config it settled on


def test_a_tuner_skips_what_it_skips_on_a_device() -> None:
    with offline() as session:
        tuner = tuned([32, 128], fn=wide_only)
        tuner[(1,)](*POINTERS, 1000)
        assert tuner.best_config.kwargs == {"XBLOCK": 128}
    assert [record.ok for record in session.records] == [False, True]
    assert "at least 64" in str(session.records[0].error)


def test_a_tuner_ends_where_it_ends_on_a_device() -> None:
    """Any other compile error ends 3.2.0's tuner; what was recorded until then stays."""
    with offline() as session:
        tuner = tuned([64, 1 << 21, 128])
        with pytest.raises(Exception, match="TRITON_MAX_TENSOR_NUMEL"):
            tuner[(1,)](*POINTERS, 1000)
    assert [record.ok for record in session.records] == [True, False]


def test_what_a_tuner_decided_is_forgotten_afterwards() -> None:
    with offline():
        tuner = tuned([64, 128])
    before = dict(vars(tuner))
    with offline():
        tuner[(1,)](*POINTERS, 1000)
        assert tuner.cache
    assert tuner.cache == {}
    assert tuner.do_bench == before["do_bench"]


class OnDisk:
    """Stands in for a cache of FlagGems, which is over a file and outlives the process."""

    def __init__(self, file: dict[Any, Any]) -> None:
        self.file = file

    def __contains__(self, key: Any) -> bool:
        return key in self.file

    def __getitem__(self, key: Any) -> Any:
        return self.file[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.file[key] = value

    def get(self, key: Any) -> Any:
        return self.file.get(key)


class LibTuner(Autotuner):
    """Stands in for FlagGems' tuner: it asks its module for what was measured, in whichever process."""

    def _bench(self, *args: Any, config: Any, **meta: Any) -> Any:
        known = libcache["benchmark", "key"]
        if known.get(str(config)) is None:
            known[str(config)] = super()._bench(*args, config=config, **meta)
        return known.get(str(config))


libcache: Any = None


def test_what_a_tuner_keeps_on_disk_is_neither_used_nor_written(monkeypatch: pytest.MonkeyPatch) -> None:
    file: dict[Any, Any] = {}
    stored = {("benchmark", "key"): OnDisk(file)}
    monkeypatch.setitem(globals(), "libcache", stored)
    for _ in range(2):
        with offline() as session:
            tuner = tuned([64, 128])
            tuner.__class__, tuner.cache = LibTuner, (cache := OnDisk({}))
            tuner[(1,)](*POINTERS, 1000)
        assert [record.constexprs["XBLOCK"] for record in session.records] == [64, 128]
        assert tuner.cache is cache
    assert (file, cache.file, libcache) == ({}, {}, stored)


def test_a_tuner_made_offline_asks_the_real_driver_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with offline():
        tuner = tuned([64, 128])

    class OneDriver:
        """Stands in for the driver of a device."""

        def get_benchmarker(self):
            return lambda kernel_call, quantiles: ["measured"]

    with monkeypatch.context() as patch:
        patch.setattr(driver, "active", OneDriver())
        assert tuner.do_bench(lambda: None, quantiles=(0.5,)) == ["measured"]


def test_do_bench_compiles_and_measures_infinity() -> None:
    with offline() as session:

        def launch() -> None:
            add[(1,)](*POINTERS, 1000, XBLOCK=256)

        assert triton.testing.do_bench(launch) == float("inf")
        assert triton.testing.do_bench(launch, quantiles=[0.5, 0.2]) == [float("inf")] * 2
    assert session.launches == 2


def test_the_jit_names_the_options_that_were_asked_for() -> None:
    with offline() as session:
        add[(1,)](*POINTERS, 1000, XBLOCK=256, multibuffer=False, num_warps=4)
    (record,) = session.records
    assert record.asked == record.delivered == {"multibuffer": False, "num_warps": 4}
    assert record.config == {"XBLOCK": 256, "multibuffer": False}


@pytest.mark.parametrize("enabled_first", [True, False])
def test_what_the_shim_does_to_a_launch_is_recorded(enabled_first: bool) -> None:
    tell.forget_warnings()
    with contextlib.ExitStack() as stack:
        if enabled_first:
            triton_ascend_compat.enable()
            stack.callback(triton_ascend_compat.disable)
        session = stack.enter_context(offline())
        if not enabled_first:
            triton_ascend_compat.enable()
            stack.callback(triton_ascend_compat.disable)
        with pytest.raises(KeyError, match="multibufer"):
            add[(1,)](*POINTERS, 1000, XBLOCK=256, multibufer=False)
        with pytest.warns(AbsentOptionWarning, match="auto_blockify_size"):
            add[(1,)](*POINTERS, 1000, XBLOCK=256, auto_blockify_size=2, multibuffer=False)
        add[(1,)](*POINTERS, 1000, XBLOCK=128)
    refused, ignored, clean = session.records
    assert not refused.ok
    assert [(key.key, key.outcome) for key in refused.keys] == [("multibufer", Outcome.REFUSED)]
    assert refused.kernel == "add"
    assert ignored.ok
    assert [(key.key, key.outcome) for key in ignored.keys] == [("auto_blockify_size", Outcome.IGNORED)]
    assert ignored.delivered["multibuffer"] is False
    assert ignored.dropped == ()
    assert clean.keys == ()


def test_a_kernel_that_does_not_compile_raises_as_ever() -> None:
    with offline() as session, pytest.raises(Exception, match="undefined_name"):
        broken[(1,)](*POINTERS, 1000, XBLOCK=256)
    assert session.launches == 0


def test_a_key_that_a_config_leaves_out_is_recorded_with_its_launches() -> None:
    triton_ascend_compat.enable()
    try:
        with offline() as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", AbsentOptionWarning)
            configs = [triton.Config({"XBLOCK": 64}, auto_blockify_size=2), triton.Config({"XBLOCK": 128})]
            triton.autotune(configs, key=[])(add)[(1,)](*POINTERS, 1000)
    finally:
        triton_ascend_compat.disable()
    leaky, clean = session.records
    assert [(fate.key, fate.where) for fate in leaky.keys] == [("auto_blockify_size", Where.CONFIG)]
    assert clean.keys == ()
    assert (leaky.config_number, clean.config_number) == (0, 1)
    assert leaky.tuning == clean.tuning is not None


def test_a_grid_that_only_folding_makes_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that was compiled unfolded stays so, whatever the variable says when it is launched."""
    monkeypatch.setenv("TRITON_ALL_BLOCKS_PARALLEL", "false")
    with offline() as session:
        add[(1,)](*POINTERS, 1000, XBLOCK=256)
        monkeypatch.setenv("TRITON_ALL_BLOCKS_PARALLEL", "1")
        with pytest.raises(RuntimeError, match="70000 blocks"):
            add[(70000,)](*POINTERS, 1000, XBLOCK=256)
        add[(70000,)](*POINTERS, 1000, XBLOCK=128)
    assert [(r.config["XBLOCK"], r.ok, r.refused_launch) for r in session.records] == [
        (256, True, False),
        (256, False, True),
        (128, True, False),
    ]


def test_every_session_lets_a_tuner_choose_anew() -> None:
    with offline():
        tuner = tuned([64, 128])
        for chip in ("Ascend910B2", "Ascend910B3", "Ascend910B2"):
            with offline(chip) as session:
                tuner[(1,)](*POINTERS, 1000)
            assert [record.constexprs["XBLOCK"] for record in session.records] == [64, 128]


def test_what_a_kernel_is_specialized_for() -> None:
    with offline() as session:
        for n in (1, 16, 17):
            add[(1,)](*POINTERS, n, XBLOCK=64)
    assert [record.specialization.get("n") for record in session.records] == ["== 1", "divisible by 16", None]
