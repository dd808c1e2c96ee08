"""A compile, a launch and a tuner's run as objects, and how whoever comes by one finds it again.

`triton.compile` cannot be watched: callers keep references to it from before. What every compile shares are
the classes (see `hooks`): `ASTSource.parse_options` begins it, the backend's stages are its course, and
`CompiledKernel.__init__` or an exception ends it, once. A session keeps a compile by its source and the
thread that compiles it. Where no argument names the source, a caller has it among its local variables.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import itertools
import linecache
import math
import operator
import os
import sys
import time
from collections.abc import Iterator, Mapping
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, ClassVar

from triton_ascend_compat import generations
from triton_ascend_compat.decision.plan import Fate, Outcome, Where
from triton_ascend_compat.offline import failures, hivm
from triton_ascend_compat.offline.records import CompileRecord, Overflow, StageTime, error_line, plain

if TYPE_CHECKING:
    from triton_ascend_compat.offline.session import Session

#: Metadata fields: how a kernel was compiled offline, whether its blocks are folded onto the physical cores,
#: and what the compiler noted meanwhile.
MODE_FIELD = "ascend_offline"
FOLDED_FIELD = "ascend_offline_folded"
NOTES_FIELD = "ascend_offline_notes"

#: The most blocks that a launch may have unless its kernel folds them (triton-ascend 3.2.0, runtime/jit.py).
MOST_BLOCKS = 65535

#: How far up a caller may stand: from the backend to the tuner of a launch there are about ten functions,
#: with as much room for the wrappers of others.
_FRAMES_TO_LOOK_AT = 24

_tuner_runs = itertools.count(1)


def local_values(frame: FrameType | None = None) -> Iterator[Any]:
    """The local variables of the functions that called that of `frame`, or whoever iterates, the nearest
    function first."""
    frame = frame or sys._getframe(1)
    for _ in range(_FRAMES_TO_LOOK_AT):
        if frame.f_back is None:
            return
        frame = frame.f_back
        if frame.f_locals is not frame.f_globals:
            yield from list(frame.f_locals.values())


class Tuning:
    """One run of a tuner. `label` tells it from other runs, also from those of other processes; `running`
    are those that have not ended."""

    running: ClassVar[set[Tuning]] = set()

    def __init__(self, tuner: Any) -> None:
        self.running.add(self)
        self.tuner = tuner
        self.label = f"{os.getpid()}.{next(_tuner_runs)}"
        self._in_memory: list[tuple[Launch, str]] = []
        self._failed = self._compiled = False

    def launched(self, launch: Launch, kernel: Any) -> None:
        """Take note of a candidate's launch that ended well, or not: then `kernel` is None."""
        key = getattr(kernel, "hash", None)
        self._failed |= kernel is None
        if launch.compile is None and key is not None:
            self._in_memory.append((launch, key))
        elif key is not None:
            self._compiled = True
            launch.session.candidates.add((id(self.tuner), launch.number, key))

    def ended(self, session: Session) -> None:
        """Record the candidates for which nothing was compiled, as their kernels were in memory, once each;
        and once more where it is all that shows that a candidate remains."""
        self.running.discard(self)
        for launch, key in self._in_memory:
            candidate = id(self.tuner), launch.number, key
            if candidate not in session.candidates or (self._failed and not self._compiled):
                session.candidates.add(candidate)
                self._compiled = True
                launch.recall(key)


class Launch:
    """One run of a JITFunction, be it a launch or a warm-up. Most have their kernel in memory and nothing to
    tell: what is known of one is found when it is asked for.

    Attributes:
        parsed: whether the backend was asked to parse them, which it is before a compile.
        keys: keys that were decided about before the compile began.
        compile: the compile that it led to; None where the kernel came from memory.
        caller: the function that it was made in, until it has ended.
    """

    parsed = False
    compile: Compile | None = None

    def __init__(self, session: Session, fn: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        self.session, self.fn = session, fn
        self._args, self._keywords = args, keywords
        self.keys: list[Fate] = []
        self.caller: FrameType | None = sys._getframe(1)

    @functools.cached_property
    def arguments(self) -> dict[str, Any]:
        """The value of each parameter; None where none is given."""
        given = {**dict(zip(self.fn.arg_names, self._args)), **self._keywords}
        defaults = {param.name: param.default for param in self.fn.params if param.has_default}
        return {name: given.get(name, defaults.get(name)) for name in self.fn.arg_names}

    @functools.cached_property
    def options(self) -> dict[str, Any]:
        """Those of the caller's keyword arguments that are compile options."""
        others = {"grid", "warmup", "stream", *self.fn.arg_names}
        return {key: value for key, value in self._keywords.items() if key not in others}

    @functools.cached_property
    def tuned(self) -> tuple[Any, Tuning | None]:
        """The candidate that a tuner is launching, and the tuner's run; to be asked for while it runs."""
        config = None
        for value in local_values(self.caller):
            if config is None and type(value) is generations.config_class():
                config = value
            if type(value) in (Tuning, Launch):
                return config, value if type(value) is Tuning else None
        return config, None

    @property
    def config(self) -> Any:
        return self.tuned[0]

    @property
    def tuning(self) -> Tuning | None:
        return self.tuned[1]

    def ask(self, options: Mapping[str, Any]) -> None:
        """Take note of what is asked of the backend, without what the JIT itself adds."""
        added = {*self.fn.arg_names, *(generations.ADDED_TO_LAUNCHES if self.options else ())}
        self.options.update((key, value) for key, value in options.items() if key not in added)

    def take(self, fate: Fate) -> None:
        """Take note of what became of a key of this launch."""
        from_config = self.config is not None and fate.key in self.config.all_kwargs()
        self.keys.append(fate._replace(where=Where.CONFIG) if from_config else fate)

    def candidate(self) -> dict[str, Any]:
        """The fields of a record that say which candidate of a tuner it is."""
        if self.tuning is None:
            return {}
        return {"tuning": self.tuning.label, "config_number": self.number}

    @property
    def number(self) -> int | None:
        """The candidate's place among the tuner's configs."""
        configs = enumerate(self.tuning.tuner.configs if self.tuning is not None else ())
        return next((number for number, config in configs if config is self.config), None)

    def recall(self, key: str) -> None:
        """Record that the launch got the kernel with hash `key` from memory."""
        record = next((each for each in self.session.records if each.ok and each.hash == key), None)
        if record is not None:
            asked = {name: plain(value) for name, value in self.options.items()}
            none = {"stages": (), "milliseconds": 0.0, "tool_milliseconds": 0.0, "cached": True}
            candidate = {"asked": asked, "keys": tuple(self.keys), **self.candidate(), **none}
            self.session.add(dataclasses.replace(record, **candidate))

    def failed(self, error: BaseException) -> None:
        """The launch ends with `error`: record that, unless its compile has, or the caller is at fault."""
        record = self.compile.record if self.compile is not None else None
        if self.compile is not None and record is None:
            self.compile.failed(error)
        elif record is not None and not record.ok:
            return
        elif self._is_too_large() or (record is None and (self.parsed or self.keys)):
            self.refused(error)

    def refused(self, error: BaseException) -> None:
        """Record that the launch is not possible."""
        constexprs = {
            param.name: plain(self.arguments[param.name]) for param in self.fn.params if param.is_constexpr
        }
        asked = {key: plain(value) for key, value in self.options.items()}
        tuned = self.config.kwargs if self.config is not None else asked
        self.session.add(
            CompileRecord(
                kernel=self.fn.__name__,
                location=generations.kernel_location(self.fn),
                chip=self.session.chip,
                hivm=self.session.hivm,
                signature={},
                constexprs=constexprs,
                asked=asked,
                delivered={},
                config={**constexprs, **{key: value for key, value in asked.items() if key in tuned}},
                keys=tuple(self.keys),
                error=error_line(error, str(error)),
                error_type=type(error).__name__,
                detail=str(error),
                refused_launch=True,
                **self.candidate(),
            )
        )

    def _is_too_large(self) -> bool:
        try:
            grid = self._keywords.get("grid")
            return blocks_of(grid(dict(self.arguments)) if callable(grid) else grid) > MOST_BLOCKS
        except Exception:  # the caller's grid is none
            return False


class Compile:
    """A compile that has begun. `record` is None until it has ended; `launch` is None outside of launches."""

    def __init__(self, session: Session, source: Any) -> None:
        self.session, self.source = session, source
        self.started = time.perf_counter()
        self.record: CompileRecord | None = None
        self.launch: Launch | None = None
        self._candidate: dict[str, Any] = {}
        self.options: Mapping[str, Any] | None = None
        self.asked: dict[str, Any] = {}
        self.chip = session.chip
        self.keys: list[Fate] = []
        self.stages: list[StageTime] = []
        self.tool_seconds = 0.0
        self.notes: list[str] = []
        self.ir: dict[str, str] = {}
        self.hash: str | None = None
        self.failure: failures.Failure | None = None

    def parse(self, backend: Any, asked: Mapping[str, Any], parse: Callable[..., Any]) -> Any:
        """Let the backend parse the options: what is asked for, and what will be delivered."""
        self.chip = str(backend.target.arch)
        self.asked = dict(asked)
        self.launch = self.session.launch_of(self.source)
        if self.launch is not None:
            self.launch.compile = self
            self._candidate = self.launch.candidate()
            self.asked = dict(self.launch.options)
        self.session.ask_defaults(lambda: vars(parse(backend, {})))
        try:
            options = parse(backend, asked)
        except Exception as error:
            self.failed(error)
            raise
        self.options = vars(options)
        return options

    def take(self, fate: Fate) -> None:
        """Take note of what became of a key of this compile."""
        self.keys.append(fate)

    def watch(self, stages: dict[str, Any], folded: bool) -> None:
        """Replace each stage by one that is recorded; the last one writes what is known into the metadata."""
        last = list(stages)[-1]
        for name, stage in stages.items():
            stages[name] = self._watched(name, stage, folded if name == last else None)

    def _watched(self, name: str, stage: Callable[..., Any], folded: bool | None) -> Callable[..., Any]:
        compile_ = self  # where the wrapper of the external compilers looks for it

        @functools.wraps(stage)
        def run(module: Any, metadata: dict[str, Any]) -> Any:
            compile_.hash = metadata["hash"]
            if not compile_.stages:
                compile_.failure = failures.recall(compile_.hash)
            started = time.perf_counter()
            try:
                result = compile_._run_stage(name, stage, module, metadata)
            except Exception as error:
                compile_.stages.append(StageTime(name, (time.perf_counter() - started) * 1e3))
                if compile_.failure is None:
                    failures.remember(compile_.hash, name, error, compile_.notes)
                compile_.failed(error)
                raise
            compile_.stages.append(StageTime(name, (time.perf_counter() - started) * 1e3))
            if compile_.session.keep_ir:
                compile_.ir[name] = _text(result)
            if folded is not None:
                notes = "\n".join(compile_.notes)
                metadata.update({MODE_FIELD: compile_.session.mode, FOLDED_FIELD: folded, NOTES_FIELD: notes})
            return result

        return run

    def _run_stage(self, name: str, stage: Callable[..., Any], module: Any, metadata: Any) -> Any:
        if self.failure is not None and self.hash is not None:
            if self.failure.stage == name:
                self.notes += self.failure.notes
                self.failure.repeat()
            text = failures.text_of_stage(self.hash, f"{self.source.name[:150]}.{name}")
            if text is not None:
                return text
        return stage(module, metadata)

    def tool_ended(self, seconds: float, stderr: str) -> None:
        """An external compiler has ended, well or not."""
        self.tool_seconds += seconds
        self.notes += hivm.notes_in(stderr)

    def builds(self) -> None:
        """The front end begins, as no kernel was found: from here on a compiler may crash."""

    def failed(self, error: BaseException) -> None:
        """The compile ends with `error`."""
        told = getattr(error, "stderr", None)
        text = told.decode(errors="replace") if isinstance(told, bytes) and told else str(error)
        file, _, line = (at := _location_of(error, self.source) or "").rpartition(":")
        self._end(
            # `compile` turns what an external compiler raises into an MLIRCompilationError.
            error_type="MLIRCompilationError" if hasattr(error, "stderr") else type(error).__name__,
            error=error_line(error, text),
            detail=text,
            error_location=at or None,
            error_source=linecache.getline(file, int(line)).strip() if at else None,
            overflow=Overflow.found_in(text),
            ir=self.ir,
        )

    def end_if_refused(self) -> None:
        """A refused key ends the compile with an error that the shim raises outside of what is hooked."""
        told = "; ".join(key.why for key in self.keys if key.outcome is Outcome.REFUSED)
        if told:
            self._end(error=told, error_type="CompileOptionError", detail=told)

    def ended(self, kernel: Any) -> None:
        """The compile has ended well, with `kernel`."""
        cached = not self.stages
        if cached:
            self.notes += [note for note in getattr(kernel.metadata, NOTES_FIELD, "").split("\n") if note]
        self.hash = kernel.hash
        asm = {stage: _text(text) for stage, text in kernel.asm.items()}
        self._end(
            cached=cached,
            memory=hivm.memory_in(list(asm.values())[-1]) if self.session.hivm else (),
            binary=_digest(list(asm.values())[-1]) if self.session.hivm else None,
            ir=asm if self.session.keep_ir else {},
        )

    def _end(self, **more: Any) -> None:
        """Make the record, the first time."""
        if self.record is None:
            self.record = self.made(**more)
            self.session.add(self.record, self)

    def made(self, **more: Any) -> CompileRecord:
        """A record of what is known by now."""
        source, launch, options = self.source, self.launch, self.options or {}
        constexprs, specialization = arguments_of(source)
        delivered = {key: plain(options[key]) for key in self.asked if key in options}
        off_default = {
            key: value
            for key, value in delivered.items()
            if value != plain(self.session.defaults.get(key)) and value is not None
        }
        return CompileRecord(
            kernel=source.name,
            location=generations.kernel_location(getattr(source, "fn", None)),
            chip=self.chip,
            hivm=self.session.hivm,
            signature={str(key): str(kind) for key, kind in source.signature.items()},
            specialization=specialization,
            constexprs=constexprs,
            asked={key: plain(value) for key, value in self.asked.items()},
            delivered=delivered,
            config={**constexprs, **off_default},
            keys=(*(launch.keys if launch is not None else ()), *self.keys),
            stages=tuple(self.stages),
            milliseconds=(time.perf_counter() - self.started) * 1e3,
            tool_milliseconds=self.tool_seconds * 1e3,
            hash=self.hash,
            notes=tuple(dict.fromkeys(self.notes)),
            **self._candidate,
            **more,
        )


def blocks_of(grid: Any) -> int:
    """How many blocks a grid of one to three dimensions has. As for a launcher, a float is no size."""
    return math.prod(map(operator.index, grid))


def arguments_of(source: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What a source is compiled for: its kernel's constexpr parameters and their values, as plain data; and
    what it takes for granted of others, parameter -> "== 1", "divisible by 16"."""
    fn = getattr(source, "fn", None)
    if fn is None:
        return {}, {}
    constants = {generations.parameter_of_constant(fn, key): plain(v) for key, v in source.constants.items()}
    constexpr = {param.name for param in fn.params if param.is_constexpr}
    granted = dict.fromkeys(generations.divisible_parameters(source), "divisible by 16")
    granted.update((name, f"== {value}") for name, value in constants.items())
    return (
        {name: value for name, value in constants.items() if name in constexpr},
        {name: what for name, what in granted.items() if name not in constexpr},  # which Triton 3.2 lists too
    )


#: The classes of Triton's own whose objects a kernel may read as globals, beside plain values.
_READABLE = ("constexpr", "dtype")


def globals_read(source: Any) -> dict[str, str]:
    """The globals that a kernel and the functions it calls read while they are compiled, and their values.
    Triton 3.2's keys of cached kernels have none of them, nor defaults of parameters."""
    kernel = getattr(getattr(source, "fn", None), "fn", None)
    found, functions = {}, [kernel] if kernel is not None else []
    for function in functions:  # which grows, as `owners` does
        owners = [function.__globals__]
        for owner in owners:
            for name in owner.keys() & function.__code__.co_names:
                value = owner[name]
                if type(value) is ModuleType:
                    if value.__name__ != "triton.language" and all(
                        vars(value) is not each for each in owners
                    ):
                        owners.append(vars(value))
                elif issubclass(type(value), generations.kernel_class()):
                    called = value.fn
                    functions += [called] if inspect.isfunction(called) and called not in functions else []
                elif issubclass(type(value), (str, int, float, tuple)) or type(value).__name__ in _READABLE:
                    found[f"{owner.get('__name__')}.{name}"] = repr(plain(value))
        if function is not kernel and function.__defaults__ is not None:
            found[f"{function.__module__}.{function.__qualname__}()"] = repr(plain(function.__defaults__))
    return found


def _location_of(error: BaseException, source: Any) -> str | None:
    """`file:line` of the kernel's line that the code generator failed at."""
    line = getattr(getattr(error, "node", None), "lineno", None)
    kernel = getattr(getattr(source, "fn", None), "fn", None)
    if line is None or kernel is None:
        return None
    # Triton counts from the line of `def`, Python from that of the first decorator.
    lines, first = inspect.getsourcelines(kernel)
    decorators = next((number for number, text in enumerate(lines) if text.lstrip().startswith("def ")), 0)
    return f"{kernel.__code__.co_filename}:{first + decorators + line - 1}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(result: Any) -> str:
    return result.decode(errors="replace") if isinstance(result, bytes) else str(result)
