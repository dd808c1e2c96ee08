"""The offline mode: which sessions are open, what each has seen, and the environment while one is open."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

from triton_ascend_compat import generations, settings
from triton_ascend_compat.offline import backend, fits, hivm
from triton_ascend_compat.offline.chips import DEFAULT_CHIP, check_chip
from triton_ascend_compat.offline.compiling import Compile, Launch, local_values
from triton_ascend_compat.offline.execute import Executor
from triton_ascend_compat.offline.records import CompileRecord, ConfigKey
from triton_ascend_compat.offline.results import Launched

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
        launches: how many launches were asked for.
        records: every compile so far, in the order in which they ended.
        raised: the runs of tuners (`CompileRecord.tuning`) that ended in an exception.
        candidates: the tuner (its `id`), the config's number and the kernel's hash of each that is recorded.
        config_keys: what became of keys of each `triton.Config` that was made, launched or not.
        arguments: what launches were given, by which an assertion on results is recognised.
        outer: the session inside which this one was opened; its `on_record` hears of these compiles too.
        nested: the sessions that were opened inside, by a script or a test itself.
        executor: what computes launches, and counts what became of them; None where none is executed.
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
        self.launches = 0
        self.executor = executor
        self.device = next(_device_numbers)
        self.tools = tools
        self.mode = f"hivm-{hivm.tool_version(tools)}" if tools is not None else "linalg"
        self.thread = threading.current_thread()
        self.defaults: Mapping[str, Any] = {}
        self.tuners: dict[int, dict[str, Any]] = {}
        self.measured: defaultdict[Any, dict[Any, Any]] = defaultdict(dict)
        self.raised: set[str] = set()
        self.candidates: set[tuple[int, int | None, str]] = set()
        self.config_keys: list[ConfigKey] = []
        self.arguments = Launched()
        self.outer: Session | None = None
        self.nested: list[Session] = []
        self._on_record = on_record
        self.records: list[CompileRecord] = []
        self._begun: dict[tuple[int, int], Compile] = {}
        self._launched: dict[int, tuple[Mapping[str, Any], Launch]] = {}
        self._overflowed: dict[int, Compile] = {}
        self.lock = threading.Lock()

    def begin(self, source: Any) -> None:
        """A compile of `source` begins on this thread."""
        self._begun[id(source), threading.get_ident()] = Compile(self, source)

    def begun(self, source: Any) -> Compile | None:
        """The compile of `source` that has begun on this thread and has not ended."""
        compile_ = self._begun.get((id(source), threading.get_ident()))
        return compile_ if compile_ is not None and compile_.source is source else None

    def forget(self, source: Any) -> None:
        """The compile of `source` is none of ours."""
        self._begun.pop((id(source), threading.get_ident()), None)

    def launched(self, launch: Launch, options: Mapping[str, Any]) -> None:
        """`launch` goes on to compile with these very `options`, maybe on another thread."""
        self._launched[id(options)] = options, launch

    def launch_of(self, source: Any) -> Launch | None:
        """The launch that the compile of `source`, which a caller is about, belongs to."""
        for value in local_values():
            options, launch = self._launched.get(id(value), (None, None))
            if launch is not None and options is value:
                del self._launched[id(value)]
                return launch
            if type(value) is Launch and value.fn is getattr(source, "fn", None):
                return value
        return None

    def add(self, record: CompileRecord, ended: Compile | None = None) -> None:
        """Take the record of a compile that has `ended`, or of a launch that was refused."""
        if ended is not None:
            self._begun = {key: begun for key, begun in self._begun.items() if begun is not ended}
            if record.overflow is not None:
                self._overflowed[id(record)] = ended
        self.records.append(record)
        self._tell(record)

    def _tell(self, record: CompileRecord) -> None:
        if self._on_record is not None:
            try:
                self._on_record(record)
            except Exception:
                settings.logger().exception("on_record failed for kernel %s", record.kernel)
        if self.outer is not None:
            self.outer._tell(record)

    def count_launch(self) -> None:
        """Take note of a launch; the driver calls this."""
        with self.lock:
            self.launches += 1
        if self.outer is not None:
            self.outer.count_launch()

    def config_made(self, key: ConfigKey) -> None:
        """Take note of what became of a key of a config."""
        self.config_keys.append(key)

    def ask_defaults(self, ask: Callable[[], Mapping[str, Any]]) -> None:
        """Ask for the backend's default options, once."""
        self.defaults = self.defaults or dict(ask())

    def largest_fit(self, record: CompileRecord) -> Mapping[str, Any] | None:
        """What was tried and fits in place of a kernel that does not fit into on-chip memory: smaller block
        sizes, found by halving and compiling up to `fits.MOST_TRIES` times, or else an option. None where the
        record tells of no overflow, or nothing that was tried fits."""
        ended = self._overflowed.get(id(record))
        if ended is None:
            return None
        aside = Session(self.chip, self.tools, self.cache, False, None)
        with _state.entered(aside):
            return fits.find(record, ended, aside)

    def with_fits(self) -> list[CompileRecord]:
        """The records, nested sessions' included, those of kernels that did not fit with what does."""
        overflowed = [(r, self._overflowed[id(r)]) for r in self.records if r.overflow is not None]
        found = fits.told(overflowed, self.largest_fit)
        own = [
            dataclasses.replace(record, fits=found[id(record)]) if id(record) in found else record
            for record in self.records
        ]
        return own + [record for session in self.nested for record in session.with_fits()]


class _State:
    """The open sessions of this process, and what stands while there are any.

    Hooks stand once per process, however many sessions are open, because tuners compile in threads of
    their own. A thread uses the session that it opened last, another thread the one opened last of all.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: tuple[Session, ...] = ()
        self.undo = contextlib.ExitStack()
        self.stand_ins: Path | None = None
        self.before: dict[str, str | None] = {}

    def current(self) -> Session | None:
        sessions = self.open
        if len(sessions) < 2:
            return sessions[0] if sessions else None
        thread = threading.current_thread()
        own = (session for session in reversed(sessions) if session.thread is thread)
        return next(own, sessions[-1])

    @contextlib.contextmanager
    def entered(self, session: Session) -> Iterator[None]:
        """Let `session` be open inside the `with` block."""
        from triton_ascend_compat.offline.hooks import Hooks

        hooks = Hooks(backend.backend_class(), self.current)
        try:
            self.enter(session, hooks.install)
            yield
        finally:
            self.leave(session)

    def enter(self, session: Session, install: Callable[[], contextlib.ExitStack]) -> None:
        with self.lock:
            if not self.open:
                self.stand_ins = None
                self.before = {name: os.environ.get(name) for name in ("TRITON_CACHE_DIR", "PATH")}
                self.undo = install()
            self.open = (*self.open, session)
            self.apply_environment()

    def leave(self, session: Session) -> None:
        with self.lock:
            if session in self.open:
                self.open = tuple(each for each in self.open if each is not session)
                self.apply_environment()
                if not self.open:
                    self.undo.close()

    def apply_environment(self) -> None:
        """Let the environment, which programs that are started read as well, fit the open sessions."""
        wanted = dict(self.before)
        if self.open:
            wanted["TRITON_CACHE_DIR"] = str(self.open[-1].cache)
            tools = next(
                (session.tools for session in reversed(self.open) if session.tools is not None), None
            )
            if tools is not None:
                wanted["PATH"] = hivm.search_path(self.folder(), tools, self.before["PATH"] or os.defpath)
        set_variables(wanted)

    def folder(self) -> Path:
        """The folder with the stand-ins for hivmc, made for the first session that needs it."""
        if self.stand_ins is None:
            self.stand_ins = Path(tempfile.mkdtemp(prefix="ascend-offline-"))
            self.undo.callback(remove_own, self.stand_ins, os.getpid())
            hivm.write_stand_ins(self.stand_ins)
        return self.stand_ins

    def renew_locks(self) -> None:
        """In a forked child: whoever held a lock is not there any more."""
        self.lock = threading.RLock()
        for session in self.open:
            session.lock = threading.Lock()


def set_variables(values: Mapping[str, str | None]) -> None:
    """Set these variables of the environment; take away those whose value is None."""
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def remove_own(folder: Path, owner: int) -> None:
    """Remove a folder in the process that made it, and in no forked child of that."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


_state = _State()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_state.renew_locks)


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
    the innermost one counts. A block may end on another thread than it began on.

    Args:
        arch: the chip, one of `chips.accepted()`.
        hivm: run bishengir-compile as well, up to the final HIVM module. Needs the extra `[hivm]`.
        cache: the folder for compiled kernels; None is one beside Triton's own (see `default_cache`).
        keep_ir: keep the text of every stage in the records.
        on_record: called with each record as it is made, on the thread that compiled. What it raises is
            logged.
        execute: compute launches on the CPU, and write their results into CPU tensors and NumPy arrays; needs
            the extra `[hivm]`, and a C compiler or llvmlite. True guards them (a process of its own, zones
            around every array); "unguarded" runs them in this process, faster.

    Raises:
        UnknownChip: `arch` is no chip that an installed compiler accepts.
        NoAscendBackend: the installed Triton has no backend for npu targets.
        HivmUnavailable: `hivm` is asked for, and bishengir-compile is missing or does not know the chip; or
            `execute` is, and what lowers or links kernels is missing.
    """
    check_chip(arch)
    backend.backend_class()
    session = Session(
        arch,
        _tools_for(arch) if hivm else None,
        Path(cache if cache is not None else default_cache()).absolute(),
        keep_ir,
        on_record,
        _executor(execute) if execute else None,
    )
    session.outer = _state.current()
    if session.outer is not None:
        session.outer.nested.append(session)
    with _state.entered(session):
        yield session


def _executor(execute: bool | str) -> Executor:
    cache = default_cache()
    return Executor(hivm.find_tools(), cache.with_name(cache.name + "-execute"), execute != "unguarded")


def _tools_for(chip: str) -> Path:
    tools = hivm.find_tools()
    hivm.check_chip(tools, chip)
    return tools
