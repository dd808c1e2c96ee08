"""What `check` adds to the process of a target, and to every Python process that this one starts: the offline
mode, opened when Triton is imported, and a file of JSON lines that tells what happened there.

Python itself runs the target, so that it finds the world that it always finds. `children/sitecustomize.py`
calls `start` before the target's first line; nothing is imported here then that a script may have a module of
its own for. Lines are written as things happen: what a target did before it failed, or died, is not lost.
"""

from __future__ import annotations

import atexit
import os
import sys
from io import FileIO

from triton_ascend_compat.checking import CHILDREN, VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import contextlib
    from typing import Any

    from triton_ascend_compat.checking.jobs import Outcome
    from triton_ascend_compat.offline import CompileRecord, Session
    from triton_ascend_compat.offline.records import ConfigKey


#: The file of lines of this process; None where nobody asked for one at its start.
own_file: str | None = None

#: What Python's audit hooks call the start of a program.
STARTS = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system")


def settings(records: str, kind: str, chip: str, hivm: bool, cache: str | None, execute: bool) -> str:
    """The value of the variable: the file of lines, the kind of target, and what the offline mode is opened
    with."""
    return "\n".join([kind, chip, "hivm" * hivm, "execute" * execute, records, cache or ""])


class RecordFile:
    """A file of JSON lines. Threads, and several processes, may append to the same one.

    It is open only while a line is written: a program may close the files that it finds open, and open its
    own in their place.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)  # noqa: PTH100 - see the module
        FileIO(self._path, "a").close()

    def add(self, record: CompileRecord, source: object = None) -> None:
        """Write a record, and of which source it is."""
        self.write(record=record.as_dict(), source=id(source))

    def pass_on(self, outcome: Outcome) -> None:
        """Write what another file of records told."""
        for record in outcome.records:
            self.add(record)
        for key in outcome.config_keys:
            self.write(config_key=key.as_dict())
        for command in outcome.outside:
            self.write(outside=command)
        self.write(launches=outcome.launches)
        if outcome.tally is not None:
            self.write(tally=outcome.tally.as_dict())

    def end(self, session: Session) -> None:
        """Write what is known at the end only: what fits in place of what did not, and the launches."""
        for record in session.with_fits():
            if record.fits is not None:
                self.write(fits=dict(record.fits), of=record.hash)
        self.write(launches=session.launches)
        if session.executor is not None:
            self.write(tally=session.executor.tally.as_dict())

    def write(self, **line: Any) -> None:
        """Write a line of any kind, unless nobody is left to read it."""
        import json

        try:
            with FileIO(self._path, "a") as file:
                file.write(json.dumps(line).encode() + b"\n")
        except FileNotFoundError:  # the run has ended
            pass


class _Process:
    """The recording of this process, and of those that are forked from it."""

    def __init__(self, value: str) -> None:
        self.kind, self.chip, hivm, execute, records, cache = value.split("\n", 5)
        self.hivm, self.execute, self.cache = bool(hivm), bool(execute), cache or None
        self.file = RecordFile(records)
        self.path = list(sys.path)
        self.pid = os.getpid()
        self.stand_ins: Any = None
        self.stack: contextlib.ExitStack | None = None
        self.sessions: list[Session] = []
        self.aside: set[int] = set()

    def stand_in(self) -> None:
        """Put the stand-ins for torch_npu there, at the first import of that or of torch."""
        if self.stand_ins is None:
            from triton_ascend_compat.offline.stand_ins import for_torch_npu

            self.stand_ins = for_torch_npu()
            self.stand_ins.__enter__()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """The last finder to be asked for a module: puts behind itself the one that has a torch_npu."""
        if name == "torch_npu":
            self.stand_in()

    def triton_imported(self) -> None:
        """Open the offline mode, which stays open; in pytest the plugin opens it for each test."""
        if self.stack is not None:
            return
        import contextlib

        import triton_ascend_compat
        from triton_ascend_compat.checking import going_on
        from triton_ascend_compat.offline import offline
        from triton_ascend_compat.offline.session import Session
        from triton_ascend_compat.shim import Hook

        self.stack = contextlib.ExitStack()
        self.listen()
        if self.kind == "pytest" and "triton_ascend_compat.pytest_plugin" in sys.modules:
            return
        Hook(Session, "largest_fit", self._wrap_largest_fit).put()
        triton_ascend_compat.enable()
        session = self.stack.enter_context(
            offline(self.chip, hivm=self.hivm, cache=self.cache, execute=self.execute)
        )
        self.sessions.append(session)
        if self.kind != "pytest":  # where a test waits for what becomes of the process
            going_on.install(lambda where: self.file.write(went_on=where))

    def listen(self) -> None:
        """Hear of what sessions record."""
        from triton_ascend_compat.offline.compiling import Compile
        from triton_ascend_compat.offline.session import Session
        from triton_ascend_compat.shim import Hook

        Hook(Session, "add", self._wrap_add).put()
        Hook(Compile, "builds", self._wrap_builds).put()
        Hook(Session, "config_made", self._wrap_config_made).put()

    def _wrap_add(self, original: Any) -> Any:
        """`Session.add`: write the record, whoever opened the session, and mark the exception behind it."""

        def add(session: Session, record: CompileRecord, ended: Any = None) -> None:
            import dataclasses

            from triton_ascend_compat.checking import going_on

            error = sys.exc_info()[1]
            if not record.ok and error is not None:
                going_on.mark(error)
            original(session, record, ended)
            if self.sessions and _thread() not in self.aside:
                awaited = record.ok or going_on.awaited(sys._getframe(1))
                source = ended.source if ended is not None else None
                self.file.add(dataclasses.replace(record, awaited=awaited), source)
                if session not in self.sessions:
                    self.sessions.append(session)

        return add

    def _wrap_builds(self, original: Any) -> Any:
        """`Compile.builds`: write what is left of a compile that ends its process, as a crash does."""

        def builds(compile_: Any) -> None:
            original(compile_)
            if self.sessions and _thread() not in self.aside:
                lost = "the process ended while this was compiled; what the compiler said is in its output"
                record = compile_.made(error=lost, error_type="ProcessEnded", detail=lost, awaited=False)
                self.file.write(begun=record.as_dict(), source=id(compile_.source))

        return builds

    def _wrap_config_made(self, original: Any) -> Any:
        """`Session.config_made`: write the key, maybe of a config that is never launched."""

        def config_made(session: Session, key: ConfigKey) -> None:
            original(session, key)
            self.file.write(config_key=key.as_dict())

        return config_made

    def _wrap_largest_fit(self, original: Any) -> Any:
        """`Session.largest_fit`: what it tries is nothing that the target asked for."""

        def largest_fit(*args: Any) -> Any:
            self.aside.add(_thread())
            try:
                return original(*args)
            finally:
                self.aside.discard(_thread())

        return largest_fit

    def program_starts(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook: tell of a program that is started so that nothing is recorded there."""
        if event in STARTS:
            told = unrecorded(event, arguments)
            if told is not None:
                self.file.write(outside=told)

    def ends(self) -> None:
        """Write how the process ends, last of all; a forked one leaves the session to whom it belongs."""
        if os.getpid() != self.pid:
            return
        error: BaseException | None = getattr(sys, "last_value", None)
        of_kernel = compares = False
        for session in self.sessions:
            self.file.end(session)
            if error is not None and session.launches:
                compares |= session.arguments.compared_by(error, isinstance(error, AssertionError))
        if self.stack is not None:
            from triton_ascend_compat.checking import going_on

            of_kernel = going_on.is_of_a_kernel(error)
        sys.path[:] = self.path  # `json` is Python's own, whatever lies beside the script
        end: dict[str, object] = {"pid": self.pid, "of_kernel": of_kernel, "error": None, "at": None}
        end["compares"] = compares
        if error is not None:
            told = type(error).__name__, text_of(error)
            end["error"], end["at"] = ": ".join(filter(None, told)), _place(error)
        self.file.write(end=end)

    def close(self) -> None:
        """Leave the offline mode, unless this is a forked process."""
        if os.getpid() == self.pid and self.stack is not None:
            self.stack.close()


def start() -> None:
    """Record this process, if the environment asks for it; once, also where two copies of this package do."""
    global own_file
    value = os.environ.get(VARIABLE)
    if value is None or own_file is not None:
        return
    import weakref

    from triton_ascend_compat.startup import import_hook

    try:
        process = _Process(value)
    except FileNotFoundError:  # the run that this process belongs to has ended
        return
    own_file = records_of(value)
    # The first to register is the last to be called, behind all that the target registers. Finalizers come
    # still later, and this one is the last of them: what they launch is recorded, too.
    weakref.finalize(process, process.close)
    atexit.register(process.ends)
    sys.meta_path.append(process)
    import_hook.arm("torch", process.stand_in)
    import_hook.arm("triton", process.triton_imported)
    sys.addaudithook(process.program_starts)


def record_forked(value: str | None, session: Session) -> None:
    """Record this process, which was forked from a pytest with an open session; `value` is the variable's."""
    if value is not None:
        process = _Process(value)
        process.sessions.append(session)
        process.listen()
        sys.addaudithook(process.program_starts)


def records_of(value: str) -> str:
    """The file of lines in the variable's value."""
    return value.split("\n", 5)[4]


def unrecorded(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The command line of a program that is started without what the recording needs; None for any other.
    What a script of the shell does inside cannot be told.

    Args:
        event: one of `STARTS`.
        arguments: the event's.
    """
    import re

    env: Any = None
    if event == "os.system":
        line = os.fsdecode(arguments[0])
    else:
        words = [arguments[1]] if isinstance(arguments[1], (str, bytes)) else arguments[1]
        words = [arguments[0], *words[1:]]
        line = " ".join(str(word) if isinstance(word, int) else os.fsdecode(word) for word in words)
        env = arguments[-1]
    env = {os.fsdecode(k): os.fsdecode(v) for k, v in (os.environ if env is None else env).items()}
    own = os.path.join(os.path.dirname(os.path.dirname(CHILDREN)), "offline")  # noqa: PTH118, PTH120
    if own in line:  # what computes launches
        return None
    inherits = VARIABLE in env and CHILDREN in env.get("PYTHONPATH", "").split(os.pathsep)
    told: object
    if inherits:
        # Python as a command: with -I, -E or -S, also as in -IB, behind other switches; or with another
        # PYTHONPATH, unless that holds the one of before.
        python = r"(?:^|[;&|(]\s*|/|-c\s+|\b(?:exec|nohup|time|nice)\s+)python[\d.]*['\"]?"
        isolated = python + r"(\s+-([XW]\s*\S+|[^\sXWcmIES-]+))*\s+-[^\sXWcm-]*[IES]"
        another = r"\bPYTHONPATH=(?!\S*\$)|(?:^|\s)(-u|unset)\s*PYTHONPATH\b"
        emptied = r"\benv\s+(-|-i|--ignore-environment)\s"
        replaced = CHILDREN not in line and re.search(f"({another}|{emptied}).*python", line)
        told = replaced or re.search(isolated, line)
    else:
        told = event == "os.system" or _may_be_python(arguments[0], env)
    return re.sub(r"^(\S*/)?sh -c ", "", line) if told else None


def _may_be_python(program: Any, env: dict[str, str]) -> bool:
    """Whether a program (a path, or an open file's number) is Python, a shell or the like, or a script."""
    import re
    import shutil

    if isinstance(program, int):
        return True
    program = os.fsdecode(program)
    name = os.path.basename(program)  # noqa: PTH119 - see the module
    if re.match(r"python|pypy|(ba|da|k|z)?sh$|(env|nice|nohup|setsid|sudo|timeout|xargs)$", name):
        return True
    try:
        with FileIO(shutil.which(program, path=env.get("PATH")) or program) as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def text_of(error: BaseException) -> str:
    """The text of an exception, which may be one that has none."""
    try:
        return " ".join(str(error).split())[:300]
    except Exception:
        return "its text cannot be had"


def _thread() -> int:
    import threading

    return threading.get_ident()


def _place(error: BaseException) -> str | None:
    """`file:line` at which the script ended: the last line of its own, or else where the error was raised."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}"
    places, traceback = [], error.__traceback__
    while traceback is not None:
        places.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    places = [place for place in places if not place[0].startswith("<")]
    own = [place for place in places if place[0] == places[0][0]]  # the script is what was called first
    return f"{own[-1][0]}:{own[-1][1]}" if own else None
