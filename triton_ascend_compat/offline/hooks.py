"""What is replaced while an offline session is open: methods of Triton's sources, kernels, launches and
tuners, of the Ascend backend, and the driver. What they see goes to the compiles of the session."""

from __future__ import annotations

import contextlib
import copy
import functools
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable

from triton import testing
from triton.compiler import compiler
from triton.runtime import autotuner, jit

from triton_ascend_compat import generations
from triton_ascend_compat.decision.plan import Fate, Where
from triton_ascend_compat.offline import backend as ascend
from triton_ascend_compat.offline.compiling import Compile, Launch, Tuning, globals_read, local_values
from triton_ascend_compat.offline.driver import NPUUtils, RecordingDriver, compile_only, measures_infinity
from triton_ascend_compat.offline.records import ConfigKey
from triton_ascend_compat.offline.stand_ins.language import both_names
from triton_ascend_compat.shim import Hook
from triton_ascend_compat.telling import events
from triton_ascend_compat.telling.events import Event

if TYPE_CHECKING:
    from triton_ascend_compat.offline.session import Session

Method = Callable[..., Any]

_MISSING = object()

#: Where tuners and the like keep what they chose or compiled, by class: Autotuner, and the LibEntry of
#: triton-ascend and FlagGems.
_MEMORIES = ("cache", "kernel_cache")

#: Where FlagGems keeps, on disk, what its tuners measured: a global of their module (its 4.2.0, libentry.py).
_MEASURED = "libcache"


class _Namespace:
    """A view whose attributes are the entries of a dict: the globals of a module that is not in
    `sys.modules` can be hooked like any other owner."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.__dict__ = entries


class Hooks:
    """The hooks on the backend `backend_class`. `current` gives the calling thread's session."""

    def __init__(self, backend_class: type[Any], current: Callable[[], Session | None]) -> None:
        self._backend = backend_class
        self._current = current
        self._undo = contextlib.ExitStack()
        self._config_fates: dict[int, tuple[Any, list[Fate]]] = {}
        self._kept: dict[int, tuple[Any, dict[str, Any]]] = {}

    def install(self) -> contextlib.ExitStack:
        """Put all hooks in place; closing what is returned takes them away."""
        with self._undo:
            self._hook(self._backend, "hash", self._wrap_hash)
            self._hook(self._backend, "add_stages", self._wrap_add_stages)
            self._hook(self._backend, "parse_options", self._wrap_backend_options)
            for source_class in (compiler.ASTSource, compiler.IRSource):
                self._hook(source_class, "parse_options", self._wrap_source_options)
                self._hook(source_class, "make_ir", self._wrap_make_ir)
            self._hook(compiler.CompiledKernel, "__init__", self._wrap_kernel_init)
            self._hook(compiler.CompiledKernel, "_init_handles", self._wrap_init_handles)
            self._hook(jit.JITFunction, "run", self._wrap_launch)
            self._undo.callback(self._give_back)
            self._cover_tuners(jit.KernelInterface)
            self._hook(jit.KernelInterface, "__init_subclass__", self._wrap_init_subclass)
            for name in ("do_bench", "do_bench_cudagraph", "do_bench_npu"):
                if hasattr(testing, name):
                    self._hook(testing, name, lambda original: measures_infinity(self._current, original))
            namespace = generations.backend_namespace(self._backend)
            if "NPUUtils" in namespace:
                self._hook(_Namespace(namespace), "NPUUtils", lambda _: lambda: NPUUtils(self._current))
            if namespace.get("subprocess") is subprocess:
                self._hook(_Namespace(namespace), "subprocess", lambda _: _ObservedSubprocess(self._current))
            stand_in = RecordingDriver(self._current, generations.loading_returns_a_thread_limit())
            self._hook(*generations.active_driver_slot(), lambda _: stand_in)
            self._undo.callback(events.subscribe(self._keys_seen))
            self._undo.enter_context(both_names())
            return self._undo.pop_all()

    def _hook(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._undo.callback(Hook(owner, name, make).put().undo)

    # Triton's sources and kernels.

    def _wrap_source_options(self, original: Method) -> Method:
        """`ASTSource.parse_options`: a compile begins."""

        @functools.wraps(original)
        def parse_options(source: Any) -> Any:
            session = self._current()
            if session is None:
                return original(source)
            session.begin(source)
            with _ending(session, source):
                return original(source)

        return parse_options

    def _wrap_make_ir(self, original: Method) -> Method:
        """`ASTSource.make_ir`: where the code generator fails."""

        @functools.wraps(original)
        def make_ir(source: Any, *args: Any, **kwargs: Any) -> Any:
            session = self._current()
            if session is None:
                return original(source, *args, **kwargs)
            with _ending(session, source):
                compile_ = session.begun(source)
                if compile_ is not None:
                    compile_.builds()
                return original(source, *args, **kwargs)

        return make_ir

    def _wrap_kernel_init(self, original: Method) -> Method:
        """`CompiledKernel.__init__`: a compile has ended well."""

        @functools.wraps(original)
        def __init__(kernel: Any, src: Any, *args: Any, **kwargs: Any) -> None:
            original(kernel, src, *args, **kwargs)
            session = self._current()
            compile_ = session.begun(src) if session is not None else None
            if compile_ is not None and compile_.hash in (None, kernel.hash):
                compile_.ended(kernel)

        return __init__

    def _wrap_init_handles(self, original: Method) -> Method:
        """`CompiledKernel._init_handles`: where a kernel gets its launcher, which has no text of it."""

        @functools.wraps(original)
        def _init_handles(kernel: Any) -> Any:
            if kernel.module is not None:
                return original(kernel)
            result = original(kernel)
            session = self._current()
            if session is not None and session.executor is not None:
                slot = "_run" if isinstance(vars(type(kernel)).get("run"), property) else "run"
                setattr(kernel, slot, session.executor.launcher(kernel, getattr(kernel, slot)))
            return result

        return _init_handles

    def _wrap_launch(self, original: Method) -> Method:
        """`JITFunction.run`."""

        @functools.wraps(original)
        def run(fn: Any, *args: Any, **kwargs: Any) -> Any:
            session = self._current()
            if session is None:
                return original(fn, *args, **kwargs)
            launch = Launch(session, fn, args, kwargs)
            if self._config_fates:
                launch.keys += self._config_fates.get(id(launch.config), (None, []))[1]
            if not kwargs.get("warmup"):
                session.arguments.add((*args, *kwargs.values()), sys._getframe(1))
            kernel = None
            try:
                kernel = original(fn, *args, **kwargs)
                return kernel
            except Exception as error:
                launch.failed(error)
                raise
            finally:
                if Tuning.running and launch.tuning is not None:
                    launch.tuning.launched(launch, kernel)
                launch.caller = None

        return run

    def _keys_seen(self, told: Sequence[Event]) -> None:
        """Hear from the shim what became of a call's keys, on the thread that compiles or launches."""
        session = self._current()
        work = self._at_work(session) if session is not None else None
        for event in told:
            if event.fate.where is Where.CONFIG:
                # Told while the config is made; its launches are to come.
                config = next((v for v in local_values() if type(v) is generations.config_class()), None)
                self._config_fates.setdefault(id(config), (config, []))[1].append(event.fate)
                if session is not None:
                    session.config_made(ConfigKey(event.fate, event.location))
            elif work is not None:
                work.take(event.fate)
        if isinstance(work, Compile):
            work.end_if_refused()

    def _at_work(self, session: Session) -> Compile | Launch | None:
        """What the nearest caller that has one is about."""
        for value in local_values():
            work = value if type(value) is Launch else session.begun(value)
            if work is not None:
                return work
        return None

    # The backend.

    def _offline(self, backend: Any) -> Session | None:
        return self._current() if backend.target.backend == generations.NPU else None

    def _wrap_hash(self, original: Method) -> Method:
        @functools.wraps(original)
        def hash(backend: Any) -> Any:
            key = original(backend)
            session = self._offline(backend)
            if session is None:
                return key
            work = self._at_work(session)
            seen = globals_read(work.source) if isinstance(work, Compile) else {}
            return f"{ascend.marker(session.mode)}-{key}" + (f"-{sorted(seen.items())}" if seen else "")

        return hash

    def _wrap_add_stages(self, original: Method) -> Method:
        @functools.wraps(original)
        def add_stages(backend: Any, stages: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            result = original(backend, stages, *args, **kwargs)
            session = self._offline(backend)
            if session is not None:
                if not session.hivm:
                    ascend.replace_binary_stage(backend, stages)
                work = self._at_work(session)
                if isinstance(work, Compile):
                    work.watch(stages, ascend.folds(self._backend))
            return result

        return add_stages

    def _wrap_backend_options(self, original: Method) -> Method:
        """The backend's `parse_options`: a launch asks for them first, then its compile."""

        @functools.wraps(original)
        def parse_options(backend: Any, asked: Any, *args: Any, **kwargs: Any) -> Any:
            def parse(backend: Any, asked: Any) -> Any:
                return original(backend, asked, *args, **kwargs)

            session = self._current()
            if session is None:
                return parse(backend, asked)
            work = self._at_work(session)
            if self._offline(backend) is None:
                if isinstance(work, Compile):
                    session.forget(work.source)
            elif isinstance(work, Compile):
                return work.parse(backend, asked, parse)
            elif isinstance(work, Launch):
                work.ask(asked)
                work.parsed = True
                options = parse(backend, asked)
                session.launched(work, vars(options))
                return options
            return parse(backend, asked)

        return parse_options

    # Tuners, and whatever else keeps what it chose or compiled.

    def _cover_tuners(self, owner: type[Any]) -> None:
        """Hook `run` of all that launch other launchers."""
        for tuner_class in owner.__subclasses__():
            if not issubclass(tuner_class, jit.JITFunction):
                if "run" in vars(tuner_class):
                    self._hook(tuner_class, "run", self._wrap_tuner)
                self._cover_tuners(tuner_class)

    def _wrap_init_subclass(self, original: Method) -> Any:
        def __init_subclass__(subclass: type[Any], /, **kwargs: Any) -> None:
            original(**kwargs)
            if "run" in vars(subclass) and not issubclass(subclass, jit.JITFunction):
                self._hook(subclass, "run", self._wrap_tuner)

        return classmethod(__init_subclass__)

    def _wrap_tuner(self, original: Method) -> Method:
        """`Autotuner.run` and its like: what is decided offline, where nothing is timed, stays in the session
        that decided it."""

        @functools.wraps(original)
        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            session = self._current()
            if session is None:
                return original(tuner, *args, **kwargs)
            self._lend(tuner, session)
            tuning = Tuning(tuner) if isinstance(tuner, autotuner.Autotuner) else None
            try:
                return original(tuner, *args, **kwargs)
            except Exception:
                if tuning is not None:
                    session.raised.add(tuning.label)
                raise
            finally:
                if tuning is not None:
                    tuning.ended(session)

        return run

    def _lend(self, tuner: Any, session: Session) -> None:
        """Give `tuner` the memories that it has in `session`, and a benchmark that times nothing."""
        own = vars(tuner)
        names = [name for name in (*_MEMORIES, "do_bench") if name in own]
        if id(tuner) not in self._kept:
            self._kept[id(tuner)] = tuner, {name: own[name] for name in names}
        if id(tuner) not in session.tuners:
            kept = self._kept[id(tuner)][1]
            session.tuners[id(tuner)] = {
                name: compile_only if name == "do_bench" else _empty(kept[name]) for name in names
            }
        own.update(session.tuners[id(tuner)])
        module = sys.modules.get(type(tuner).__module__)
        if hasattr(module, _MEASURED):
            self._kept.setdefault(id(module), (module, {_MEASURED: getattr(module, _MEASURED)}))
            setattr(module, _MEASURED, session.measured)

    def _give_back(self) -> None:
        for tuner, before in self._kept.values():
            vars(tuner).update(before)
        self._kept.clear()


def _empty(memory: Any) -> Any:
    """A memory of the same shape with nothing in it."""
    if isinstance(memory, tuple):
        return tuple(map(_empty, memory))
    empty = copy.copy(memory) if isinstance(memory, dict) else {}  # FlagGems has a class over a file
    empty.clear()
    return empty


@contextlib.contextmanager
def _ending(session: Session, source: Any) -> Any:
    """End the compile of `source` with an exception that passes."""
    try:
        yield
    except Exception as error:
        compile_ = session.begun(source)
        if compile_ is not None:
            compile_.failed(error)
        raise


class _ObservedSubprocess:
    """The module `subprocess`, with a `run` that tells the compile in question what became of the program."""

    def __init__(self, current: Callable[[], Session | None]) -> None:
        self._current = current

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def run(self, command: Any, *args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        stderr: Any = b""
        try:
            done = subprocess.run(command, *args, **kwargs)
            stderr = done.stderr
            return done
        except subprocess.CalledProcessError as error:
            stderr = error.stderr
            raise
        finally:
            compile_ = next((value for value in local_values() if type(value) is Compile), None)
            if compile_ is not None:
                told = stderr if isinstance(stderr, bytes) else str(stderr or "").encode()
                compile_.tool_ended(time.perf_counter() - started, told.decode(errors="replace"))
