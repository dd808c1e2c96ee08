"""Watches compiles from the methods that every one of them goes through, and makes a record of each.

`triton.compile` itself cannot be watched: callers keep references to it from before. What they all share
are the classes: `ASTSource.parse_options` begins a compile, the backend's stages are its course, and
`CompiledKernel.__init__` or an exception ends it.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.decision.plan import Outcome
from triton_ascend_compat.offline import failures, hivm
from triton_ascend_compat.offline.records import CompileRecord, Overflow, StageTime, one_line
from triton_ascend_compat.telling.events import Event

#: Metadata fields that say that a kernel was compiled offline, and what the compiler noted meanwhile.
MODE_FIELD = "ascend_offline"
NOTES_FIELD = "ascend_offline_notes"

Hooked = Callable[..., Any]


class _Compile:
    """A compile that has begun on this thread and has not ended yet."""

    def __init__(self, session: Any, source: Any) -> None:
        self.session = session
        self.source = source
        self.started = time.perf_counter()
        self.options: dict[str, Any] | None = None
        self.defaults: Mapping[str, Any] = {}
        self.asked: dict[str, Any] = {}
        self.target: Any = None
        self.keys: list[Event] = []
        self.stages: list[StageTime] = []
        self.tool_seconds = 0.0
        self.notes: list[str] = []
        self.ir: dict[str, str] = {}
        self.hash: str | None = None
        self.failure: dict[str, Any] | None = None


class Recorder:
    """Makes the hooks. `session` gives the calling thread's session, or None outside of offline mode."""

    def __init__(self, session: Callable[[], Any]) -> None:
        self._session = session
        self._local = threading.local()

    # What stands on the thread: the compile in progress, and what the JIT last asked of the backend.

    def _current(self) -> _Compile | None:
        compile_: _Compile | None = getattr(self._local, "compile", None)
        return compile_

    def _begin(self, source: Any) -> None:
        self.flush()
        session = self._session()
        if session is not None:
            self._local.compile = _Compile(session, source)

    def flush(self) -> None:
        """End what ended unseen on this thread: an error raised by a wrapper that lies over ours. Without a
        word from the shim it was no compile: frontends also ask a source for its options by themselves."""
        compile_ = self._current()
        if compile_ is not None:
            reasons = [
                event.fate.why for event in compile_.keys if event.fate.outcome is not Outcome.DELIVERED
            ]
            if reasons:
                self._end(error_line="; ".join(reasons), error_type="CompileOptionError")
            self._local.compile = None
        self._end_launch(None)

    def _early(self) -> list[Event]:
        """The keys that the shim has decided about in a launch, before its compile begins."""
        early: list[Event] = self._local.__dict__.setdefault("early", [])
        return early

    def _end_launch(self, error: BaseException | None) -> None:
        """Record a launch that ended before its compile began, with `error` or, unseen, in a refused key."""
        everything, session = self._early(), self._session()
        early = [event for event in everything if error is not None or event.fate.outcome is Outcome.REFUSED]
        self._local.early = [event for event in everything if event not in early]
        if not early or session is None:
            return
        reasons = "; ".join(f"{event.fate.key}={event.fate.value!r}: {event.fate.why}" for event in early)
        nothing: dict[str, Any] = {}
        record = CompileRecord(
            *(early[0].kernel, early[0].location, session.chip, session.hivm),
            *(nothing, nothing, {event.fate.key: event.fate.value for event in early}, nothing, nothing),
            keys=tuple(event.fate for event in early),
            error=one_line(str(error)) if error is not None else reasons,
            error_type=type(error).__name__ if error is not None else "KeyError",
            detail=str(error) if error is not None else reasons,
        )
        session.add(record, None, {})

    # Hooks on Triton's source and kernel classes.

    def wrap_source_options(self, original: Hooked) -> Hooked:
        """`ASTSource.parse_options`: a compile begins."""

        @functools.wraps(original)
        def parse_options(source: Any) -> Any:
            self._begin(source)
            with self._errors():
                return original(source)

        return parse_options

    def wrap_make_ir(self, original: Hooked) -> Hooked:
        """`ASTSource.make_ir`: where the code generator fails."""

        @functools.wraps(original)
        def make_ir(source: Any, *args: Any, **kwargs: Any) -> Any:
            with self._errors():
                return original(source, *args, **kwargs)

        return make_ir

    def wrap_kernel_init(self, original: Hooked) -> Hooked:
        """`CompiledKernel.__init__`: a compile has ended well."""

        @functools.wraps(original)
        def __init__(kernel: Any, src: Any, metadata_group: Any, hash: Any) -> None:
            original(kernel, src, metadata_group, hash)
            compile_ = self._current()
            if compile_ is not None and compile_.source is src:
                self._end(kernel=kernel)

        return __init__

    # Hooks on the backend.

    def wrap_backend_options(self, original: Hooked) -> Hooked:
        """The backend's `parse_options`: what was asked for, and what will be delivered."""

        @functools.wraps(original)
        def parse_options(backend: Any, asked: Any) -> Any:
            if self._session() is None or backend.target.backend != generations.NPU:
                self._local.compile = None
                return original(backend, asked)
            compile_ = self._current()
            if compile_ is None or compile_.options is not None:
                # Not from `compile`: the JIT asks first, with the caller's keywords, and then hands every
                # option over to `compile`.
                keywords = dict(asked)
                self.flush()
                try:
                    options = original(backend, asked)
                except Exception as error:
                    self._end_launch(error)
                    raise
                self._local.jit = (keywords, dict(vars(options)))
                return options
            compile_.target = backend.target
            compile_.defaults = compile_.session.defaults(lambda: vars(original(backend, {})))
            compile_.asked = self._asked(compile_, asked)
            with self._errors():
                options = original(backend, asked)
            compile_.options = dict(vars(options))
            return options

        return parse_options

    def watch_stages(self, stages: dict[str, Any], mode: str) -> None:
        """Replace each of a compile's stages by one that is recorded. `mode` goes into the metadata."""
        last = list(stages)[-1]
        for name, stage in stages.items():
            stages[name] = self._watched(name, stage, mode if name == last else None)

    def _watched(self, name: str, stage: Hooked, mode: str | None) -> Hooked:
        def run(module: Any, metadata: dict[str, Any]) -> Any:
            compile_ = self._current()
            if compile_ is None:
                return stage(module, metadata)
            compile_.hash = metadata["hash"]
            if not compile_.stages:
                compile_.failure = failures.recall(compile_.hash)
            started = time.perf_counter()
            with self._errors(name):
                try:
                    result = self._run_stage(compile_, name, stage, module, metadata)
                finally:
                    compile_.stages.append(StageTime(name, (time.perf_counter() - started) * 1e3))
            if compile_.session.keep_ir:
                compile_.ir[name] = _text(result)
            if mode is not None:
                metadata[MODE_FIELD] = mode
                metadata[NOTES_FIELD] = "\n".join(compile_.notes)
            return result

        return run

    def _run_stage(self, compile_: _Compile, name: str, stage: Hooked, module: Any, metadata: Any) -> Any:
        failure = compile_.failure
        if failure is not None and compile_.hash is not None:
            if failure["stage"] == name:
                compile_.notes += failure["notes"]
                failures.repeat(failure)
            text = failures.text_of_stage(compile_.hash, f"{compile_.source.name[:150]}.{name}")
            if text is not None:
                return text
        return stage(module, metadata)

    def tool_ended(self, program: str, seconds: float, stderr: bytes) -> None:
        """An external compiler has ended, well or not."""
        compile_ = self._current()
        if compile_ is not None:
            compile_.tool_seconds += seconds
            compile_.notes += hivm.notes_in(stderr.decode(errors="replace"))

    def key_seen(self, event: Event) -> None:
        """Hear from the shim what became of a key: it says so on the thread that compiles, inside the compile
        or, in a launch, before it."""
        compile_ = self._current()
        if compile_ is not None and compile_.options is None:
            compile_.keys.append(event)
        else:
            self._early().append(event)

    # Ends.

    def _errors(self, stage: str | None = None) -> _Ending:
        return _Ending(self, stage)

    def failed(self, error: BaseException, stage: str | None) -> None:
        """The compile in progress ends with `error`."""
        compile_ = self._current()
        if compile_ is None:
            return
        if stage is not None and compile_.hash is not None and compile_.failure is None:
            failures.remember(compile_.hash, stage, error, compile_.notes)
        told = getattr(error, "stderr", None)
        text = told.decode(errors="replace") if isinstance(told, bytes) and told else str(error)
        self._end(
            error_line=_innermost(error, text),
            error_type=_name_of(error),
            detail=text,
            error_location=_location_of(error, compile_.source),
        )

    def _end(
        self,
        kernel: Any = None,
        error_line: str | None = None,
        error_type: str | None = None,
        detail: str | None = None,
        error_location: str | None = None,
    ) -> None:
        compile_ = self._current()
        self._local.compile = None
        assert compile_ is not None
        source, options = compile_.source, compile_.options or {}
        constexprs = constexprs_of(source)
        delivered = {key: plain(options[key]) for key in compile_.asked if key in options}
        off_default = {
            key: value
            for key, value in delivered.items()
            if value != plain(compile_.defaults.get(key)) and value is not None
        }
        notes = list(compile_.notes)
        if kernel is not None and not compile_.stages:
            notes += [note for note in getattr(kernel.metadata, NOTES_FIELD, "").split("\n") if note]
        record = CompileRecord(
            kernel=source.name,
            location=generations.kernel_location(getattr(source, "fn", None)),
            chip=str(compile_.target.arch) if compile_.target is not None else compile_.session.chip,
            hivm=compile_.session.hivm,
            signature={str(key): str(kind) for key, kind in source.signature.items()},
            constexprs=constexprs,
            asked={key: plain(value) for key, value in compile_.asked.items()},
            delivered=delivered,
            config={**constexprs, **off_default},
            keys=tuple(event.fate for event in compile_.keys),
            stages=tuple(compile_.stages),
            milliseconds=(time.perf_counter() - compile_.started) * 1e3,
            tool_milliseconds=compile_.tool_seconds * 1e3,
            cached=kernel is not None and not compile_.stages,
            hash=kernel.hash if kernel is not None else compile_.hash,
            error=(error_line or error_type) if kernel is None else None,
            error_location=error_location,
            error_type=error_type,
            detail=detail,
            overflow=Overflow.found_in(detail or ""),
            notes=tuple(dict.fromkeys(notes)),
            ir=_ir_of(kernel, compile_) if compile_.session.keep_ir else {},
        )
        compile_.session.add(record, source, options)

    def _asked(self, compile_: _Compile, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What the caller asked for; of a launch, its own keywords, not every option that the JIT makes of
        them. What the shim decided about those belongs to this compile too."""
        jit, self._local.jit = getattr(self._local, "jit", None), None
        early, self._local.early = self._early(), []
        if jit is not None and all(key in asked and asked[key] is value for key, value in jit[1].items()):
            compile_.keys[:0] = [event for event in early if event.kernel == compile_.source.name]
            parameters = getattr(getattr(compile_.source, "fn", None), "arg_names", ())
            return {
                key: value
                for key, value in jit[0].items()
                if key not in parameters
                and not (key in generations.ADDED_TO_LAUNCHES and compile_.defaults.get(key) == value)
            }
        return dict(asked)


class _Ending:
    """Tells the recorder of an exception, and lets it pass."""

    def __init__(self, recorder: Recorder, stage: str | None) -> None:
        self._recorder, self._stage = recorder, stage

    def __enter__(self) -> None:
        """Nothing has happened yet."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._recorder.failed(error, self._stage)


def constexprs_of(source: Any) -> dict[str, Any]:
    """The constexpr parameters of a source's kernel and their values, as plain data."""
    fn = getattr(source, "fn", None)
    if fn is None:
        return {}
    wanted = {param.name for param in fn.params if param.is_constexpr}
    named = {generations.parameter_of_constant(fn, key): value for key, value in source.constants.items()}
    return {name: plain(value) for name, value in named.items() if name in wanted}


def plain(value: Any) -> Any:
    """A value as data that JSON has a form for."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return getattr(value, "__name__", None) or str(value)


def _name_of(error: BaseException) -> str:
    # `compile` turns what an external compiler raises into an MLIRCompilationError.
    return "MLIRCompilationError" if hasattr(error, "stderr") else type(error).__name__


def _innermost(error: BaseException, text: str) -> str:
    """What is wrong, in one line: an error in a function that the kernel calls is behind the kernel's own."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if cause is error:
        return one_line(text)
    line = one_line(str(cause))
    return line if type(cause) is type(error) else f"{type(cause).__name__}: {line}"


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


def _ir_of(kernel: Any, compile_: _Compile) -> dict[str, str]:
    if kernel is None:
        return dict(compile_.ir)
    return {stage: _text(text) for stage, text in kernel.asm.items()}


def _text(result: Any) -> str:
    return result.decode(errors="replace") if isinstance(result, bytes) else str(result)
