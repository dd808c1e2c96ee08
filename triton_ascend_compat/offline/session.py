"""The offline mode: which sessions are open, and what is installed while one is."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

from triton_ascend_compat import events, generations
from triton_ascend_compat.offline import backend as _backend
from triton_ascend_compat.offline import fits, hivm
from triton_ascend_compat.offline.chips import DEFAULT_CHIP, check_chip
from triton_ascend_compat.offline.driver import RecordingDriver, measures_infinity
from triton_ascend_compat.offline.execute import Executor
from triton_ascend_compat.offline.recorder import Recorder
from triton_ascend_compat.offline.records import CompileRecord
from triton_ascend_compat.offline.stand_ins.language import both_names
from triton_ascend_compat.offline.tuner import TunerKeeper
from triton_ascend_compat.shim import Hook

#: Numbers that no real device has: the JIT keeps kernels in memory by device, and those of one session must
#: be found neither by a device nor by another session.
_device_numbers = itertools.count(1_000_000)

_CACHE_SUFFIX = "-ascend-offline"


class Session:
    """One offline session.

    Attributes:
        chip: the chip it compiles for.
        target: the `GPUTarget` to hand to `triton.compile`.
        hivm: whether bishengir-compile runs.
        cache: the folder of its compiled kernels.
        keep_ir: whether records hold the text of each stage.
        records: every compile so far, in the order in which they ended.
        launches: how many launches were asked for.
        executor: what computes them, and counts what became of them; None where none is executed.
    """

    def __init__(
        self,
        chip: str,
        tools: Path | None,
        cache: Path,
        keep_ir: bool,
        on_record: Callable[[CompileRecord], None] | None,
        executor: Executor | None = None,
    ) -> None:
        from triton.backends.compiler import GPUTarget

        self.chip = chip
        self.target = GPUTarget(generations.NPU, chip, 0)
        self.hivm = tools is not None
        self.cache = cache
        self.keep_ir = keep_ir
        self.records: list[CompileRecord] = []
        self.launches = 0
        self.executor = executor
        self.device = next(_device_numbers)
        self.tools = tools
        self.mode = f"hivm-{hivm.tool_version(tools)}" if tools is not None else "linalg"
        self._on_record = on_record
        self._lock = threading.Lock()
        self._overflowed: dict[int, tuple[Any, Mapping[str, Any], set[str]]] = {}
        self._defaults: Mapping[str, Any] | None = None

    def largest_fit(self, record: CompileRecord) -> Mapping[str, Any] | None:
        """The largest block sizes with which a kernel that did not fit into on-chip memory does.

        Those of another config that was compiled, or else found by halving and compiling, up to
        `fits.MOST_TRIES` times. None where the record tells of no overflow, where the kernel has no
        constexpr parameter that looks like a block size, or where nothing tried fits.
        """
        source, options, _ = self._overflowed.get(id(record), (None, {}, set()))
        blocks = self._blocks(record)
        if record.overflow is None or not blocks:
            return None
        found: Mapping[str, Any] | None = fits.among(self.records, record, blocks)
        if found is not None or source is None:
            return found
        with offline(self.chip, hivm=self.hivm, cache=self.cache) as aside:
            return fits.search(
                record, blocks, lambda sizes: aside.compiles(fits.with_constexprs(source, sizes), options)
            )

    def with_fits(self) -> list[CompileRecord]:
        """The records, those of kernels that did not fit with the largest config that does."""
        looked_for: dict[tuple[Any, ...], Any] = {}
        told = []
        for record in self.records:
            if record.overflow is not None:
                # Configs of one launch differ in their blocks only; one search serves them all.
                blocks = self._blocks(record)
                rest = {name: value for name, value in record.constexprs.items() if name not in blocks}
                key = (record.kernel, record.location, record.chip, str(record.signature), str(rest))
                if key not in looked_for:
                    looked_for[key] = self.largest_fit(record)
                record = dataclasses.replace(record, fits=looked_for[key])
            told.append(record)
        return told

    def _blocks(self, record: CompileRecord) -> list[str]:
        _, _, tuned = self._overflowed.get(id(record), (None, {}, set()))
        return fits.block_parameters(record.constexprs, tuned)

    def add(self, record: CompileRecord, source: Any, options: Mapping[str, Any]) -> None:
        """Take the record of a compile that has ended; the recorder calls this."""
        with self._lock:
            self.records.append(record)
            if record.overflow is not None:
                kernel = getattr(getattr(source, "fn", None), "fn", None)
                self._overflowed[id(record)] = (source, options, set(_state.tuners.tuned.get(kernel, ())))
        if self._on_record is not None:
            self._on_record(record)

    def count_launch(self) -> None:
        """Take note of a launch; the driver calls this."""
        with self._lock:
            self.launches += 1

    def defaults(self, ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The backend's default options, asked for once."""
        if self._defaults is None:
            self._defaults = dict(ask())
        return self._defaults

    def compiles(self, source: Any, options: Mapping[str, Any]) -> bool:
        """Whether `source` (an ASTSource) compiles with these options."""
        from triton.compiler.compiler import compile

        try:
            compile(source, target=self.target, options=dict(options))
        except Exception:
            return False
        return True


class _State:
    """The open sessions of this process, and what stands while there are any.

    Hooks stand once per process, however many sessions are open, because tuners compile in threads of
    their own. A thread uses the session that it opened last, another thread the one opened last of all.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: list[Session] = []
        self.local = threading.local()
        self.undo = contextlib.ExitStack()
        self.recorder = Recorder(self.current)
        self.tuners = TunerKeeper(lambda: self.current() is not None)
        self.stand_ins: Path | None = None
        self.before: dict[str, str | None] = {}

    def mine(self) -> list[Session]:
        stack: list[Session] = self.local.__dict__.setdefault("stack", [])
        return stack

    def current(self) -> Session | None:
        mine = self.mine()
        if mine:
            return mine[-1]
        try:
            return self.open[-1]
        except IndexError:
            return None


_state = _State()


def current_session() -> Session | None:
    """The session that a compile on this thread belongs to, or None outside of the offline mode."""
    return _state.current()


def default_cache() -> Path:
    """The folder of offline kernels where no other is asked for: beside Triton's own cache, never in it."""
    own = _state.before.get("TRITON_CACHE_DIR") if _state.open else os.environ.get("TRITON_CACHE_DIR")
    triton_home = Path(os.environ.get("TRITON_HOME") or Path.home())
    beside = Path(own.strip()) if own and own.strip() else triton_home / ".triton" / "cache"
    return beside.with_name(beside.name + _CACHE_SUFFIX)


@contextlib.contextmanager
def offline(
    arch: str = DEFAULT_CHIP,
    *,
    hivm: bool = False,
    cache: str | os.PathLike[str] | None = None,
    keep_ir: bool = False,
    on_record: Callable[[CompileRecord], None] | None = None,
    execute: bool | str = False,
) -> Iterator[Session]:
    """Compile for Ascend without CANN and without an NPU, inside the `with` block.

    `triton.compile`, `kernel.warmup(…)`, `kernel[grid](…)` and `triton.autotune` run to their end: TTIR and
    linalg text come from the real compiler, the metadata holds every option, the "binary" is text. Nothing
    is executed, nothing is timed, and no ordinary compile finds such kernels in a cache. Arguments may be
    CPU tensors, meta tensors, torch dtypes (in `warmup`) or `Pointer("fp32")`.

    The mode holds for the whole process, other threads included. Blocks nest, also across threads, and
    the innermost one counts.

    Args:
        arch: the chip, one of `CHIPS`.
        hivm: run bishengir-compile as well, up to the final HIVM module. Needs the extra `[hivm]`.
        cache: the folder for compiled kernels; None is one beside Triton's own (see `default_cache`).
        keep_ir: keep the text of every stage in the records.
        on_record: called with each record as it is made, on the thread that compiled.
        execute: compute launches on the CPU, and write their results into CPU tensors and NumPy arrays; needs
            the extra `[hivm]`, and a C compiler or llvmlite. True guards them (a process of its own, zones
            around every array); "unguarded" runs them in this process, faster.

    Raises:
        UnknownChip: `arch` is no chip that triton-ascend accepts.
        NoAscendBackend: the installed Triton has no backend for npu targets.
        HivmUnavailable: `hivm` is asked for, and bishengir-compile is missing or does not know the chip; or
            `execute` is, and what lowers or links kernels is missing.
    """
    check_chip(arch)
    cls = _backend.backend_class()
    session = Session(
        arch,
        _tools_for(arch) if hivm else None,
        Path(cache) if cache is not None else default_cache(),
        keep_ir,
        on_record,
        _executor(execute) if execute else None,
    )
    with _state.lock:
        if not _state.open:
            _install(cls)
        _state.open.append(session)
    _state.mine().append(session)
    try:
        with _state.lock:
            _apply_environment()
        yield session
    finally:
        _state.recorder.flush()
        _state.mine().remove(session)
        with _state.lock:
            _state.open.remove(session)
            _apply_environment()
            if not _state.open:
                _state.undo.close()


def _executor(execute: bool | str) -> Executor:
    cache = default_cache()
    return Executor(hivm.find_tools(), cache.with_name(cache.name + "-execute"), execute != "unguarded")


def _tools_for(chip: str) -> Path:
    tools = hivm.find_tools()
    hivm.check_chip(tools, chip)
    return tools


def _install(cls: type[Any]) -> None:
    from triton import testing
    from triton.compiler import compiler
    from triton.runtime import autotuner

    recorder = _state.recorder
    with contextlib.ExitStack() as undo:

        def hook(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            undo.callback(Hook(owner, name, make).undo)

        hook(cls, "hash", _wrap_hash)
        hook(cls, "add_stages", _wrap_add_stages)
        hook(cls, "parse_options", recorder.wrap_backend_options)
        for source_class in (compiler.ASTSource, compiler.IRSource):
            hook(source_class, "parse_options", recorder.wrap_source_options)
            hook(source_class, "make_ir", recorder.wrap_make_ir)
        hook(compiler.CompiledKernel, "__init__", recorder.wrap_kernel_init)
        hook(compiler.CompiledKernel, "_init_handles", _wrap_init_handles)
        hook(autotuner.Autotuner, "run", _state.tuners.wrap_run)
        undo.callback(_state.tuners.release)
        for name in ("do_bench", "do_bench_cudagraph", "do_bench_npu"):
            if hasattr(testing, name):
                hook(testing, name, lambda original: measures_infinity(_state.current, original))
        for ready in _backend.hook_namespace(cls, _chip, recorder.tool_ended):
            undo.callback(ready.undo)
        stand_in = RecordingDriver(_state.current, generations.loading_returns_a_thread_limit())
        hook(*generations.active_driver_slot(), lambda _: stand_in)
        undo.callback(events.subscribe(recorder.key_seen))
        undo.enter_context(both_names())
        _state.stand_ins = None
        _state.before = {name: os.environ.get(name) for name in ("TRITON_CACHE_DIR", "PATH")}
        _state.undo = undo.pop_all()


def _apply_environment() -> None:
    """Let the environment, which programs that are started read as well, fit the open sessions."""
    wanted = dict(_state.before)
    if _state.open:
        wanted["TRITON_CACHE_DIR"] = str(_state.open[-1].cache)
        tools = next((session.tools for session in reversed(_state.open) if session.tools is not None), None)
        if tools is not None:
            wanted["PATH"] = hivm.search_path(_stand_ins(), tools, _state.before["PATH"] or os.defpath)
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _stand_ins() -> Path:
    """The folder with the stand-ins for hivmc, made for the first session that needs it."""
    if _state.stand_ins is None:
        folder = _state.undo.enter_context(tempfile.TemporaryDirectory(prefix="ascend-offline-"))
        hivm.write_stand_ins(Path(folder))
        _state.stand_ins = Path(folder)
    return _state.stand_ins


def _chip() -> str:
    session = _state.current()
    return session.chip if session is not None else ""


def _is_offline(backend: Any) -> Session | None:
    return _state.current() if backend.target.backend == generations.NPU else None


def _wrap_hash(original: Any) -> Any:
    @functools.wraps(original)
    def hash(self: Any) -> Any:
        key = original(self)
        session = _is_offline(self)
        return f"{_backend.marker(session.mode)}-{key}" if session is not None else key

    return hash


def _wrap_add_stages(original: Any) -> Any:
    @functools.wraps(original)
    def add_stages(self: Any, stages: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        result = original(self, stages, *args, **kwargs)
        session = _is_offline(self)
        if session is not None:
            if not session.hivm:
                _backend.replace_binary_stage(self, stages)
            _state.recorder.watch_stages(stages, session.mode)
        return result

    return add_stages


def _wrap_init_handles(original: Any) -> Any:
    """`CompiledKernel._init_handles`: where a kernel gets its launcher, which has no text of it."""

    @functools.wraps(original)
    def _init_handles(kernel: Any) -> Any:
        fresh = kernel.module is None
        result = original(kernel)
        session = _state.current()
        if fresh and session is not None and session.executor is not None:
            count, compute = kernel.run, session.executor.launcher(kernel)

            def run(*args: Any, **kwargs: Any) -> None:
                count(*args, **kwargs)
                compute(*args, **kwargs)

            kernel.run = run
        return result

    return _init_handles
