"""Launches that compute: a kernel's arguments into the slots of its machine code, once a program of the grid.

What cannot be computed is said by name and left alone; what goes wrong in it is the launch's own error.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import signal
import struct
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from triton_ascend_compat.offline.compiling import arguments_of
from triton_ascend_compat.offline.execute import guarding, lowering, worker
from triton_ascend_compat.offline.execute.guarding import GUARD, Call, DoesNotEnd, ExecutionFault, Memory
from triton_ascend_compat.offline.execute.library import NotExecuted


class NotExecutedWarning(UserWarning):
    """A launch was not computed: its results are what they were before."""


class UnwrittenWarning(UserWarning):
    """Results of a launch depend on memory that was never written."""


@dataclass
class Tally:
    """What became of the launches: how many were computed, how many were a tuner's trials, how many were not
    computed (by kernel and reason), and what went wrong in computed ones."""

    computed: int = 0
    trials: int = 0
    refused: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    faults: collections.Counter[str] = field(default_factory=collections.Counter)

    def as_dict(self) -> dict[str, Any]:
        """As data that JSON has a form for."""
        refused = [[kernel, reason, count] for (kernel, reason), count in self.refused.items()]
        return {**vars(self), "refused": refused, "faults": dict(self.faults)}

    def add(self, told: Mapping[str, Any]) -> None:
        """Count what another tally, as `as_dict` gave it, says too."""
        self.computed += told["computed"]
        self.trials += told["trials"]
        self.refused.update({(kernel, reason): count for kernel, reason, count in told["refused"]})
        self.faults.update(told["faults"])

    def excuse(self) -> str | None:
        """Why there may be no results to compare: what was not executed. None where all was."""
        reasons = [f"kernel {kernel} was not executed: {reason}" for kernel, reason in self.refused]
        return "; ".join(reasons) or None

    def lines(self) -> list[str]:
        """A report: one line for what was computed, one for each reason, and one for each fault."""
        head = f"{self.computed} launches computed, {sum(self.refused.values())} not executed"
        return [
            head + (f", {self.trials} trials of tuners not computed" if self.trials else ""),
            *(f"not executed: {kernel}: {why} ({n} launches)" for (kernel, why), n in self.refused.items()),
            *(f"{fault} ({count} times)" if count > 1 else fault for fault, count in self.faults.items()),
        ]


class _Thread(threading.local):
    trial = False


_thread = _Thread()


@contextlib.contextmanager
def trial() -> Iterator[None]:
    """Launches on this thread are a tuner's trials: they are not computed."""
    before, _thread.trial = _thread.trial, True
    try:
        yield
    finally:
        _thread.trial = before


class Executor:
    """Computes launches.

    Args:
        tools: the folder of bishengir-opt.
        cache: the folder for machine code; its own, mode 0700.
        guarded: run in a process of its own, between guard zones.

    Raises:
        ExecutionUnavailable: bishengir-opt or what links is missing, or `cache` is open to others.
    """

    def __init__(self, tools: Path, cache: Path, guarded: bool = True) -> None:
        self.guarded = guarded
        self.tally = Tally()
        self.tools = lowering.Tools.find(tools)
        self.cache = lowering.private_folder(cache)

    def launcher(self, kernel: Any, count: Callable[..., None]) -> Callable[..., None]:
        """What takes the place of a compiled kernel's `run`, which was `count`."""
        prepared: list[_Kernel] = []

        # Before the arguments come the stream, the function, two of metadata and two hooks.
        def launch(x: int, y: int, z: int, *rest: Any, **_: Any) -> None:
            count(x, y, z, *rest)
            if _thread.trial:
                self.tally.trials += 1
                return
            try:
                if not prepared:
                    prepared.append(_Kernel(kernel, self))
                unwritten = prepared[0].launch(x, y, z, rest[6:])
            except NotExecuted as reason:
                self.tally.refused[kernel.src.name, str(reason)] += 1
                text = f"kernel {_label(kernel)} was not executed: {reason}"
                warnings.warn(text, NotExecutedWarning, stacklevel=4)
                return
            except ExecutionFault as fault:
                text = f"kernel {_label(kernel)}: {fault}"
                self.tally.faults[text] += 1
                raise ExecutionFault(text) from None
            self.tally.computed += 1
            for names in unwritten:
                text = f"kernel {_label(kernel)}: {names} depends on memory that was never written"
                self.tally.faults[text] += 1
                warnings.warn(text, UnwrittenWarning, stacklevel=4)

        return launch


class _Kernel:
    """One compiled kernel with its machine code."""

    def __init__(self, kernel: Any, executor: Executor) -> None:
        text = kernel.asm.get("ttadapter")
        if text is None:
            raise NotExecuted("it has no linalg text (a SIMT-only kernel)")
        self._lowered = lowering.lower(text, executor.guarded, executor.tools, executor.cache)
        names = list(kernel.src.signature)
        absent = {names[key] if isinstance(key, int) else key for key in kernel.src.constants}
        takes = [(number, name) for number, name in enumerate(names) if name not in absent]
        kinds = self._lowered.kinds[2:]
        if len(takes) != len(kinds):
            raise NotExecuted(f"it takes {len(kinds)} arguments and is given {len(takes)}")
        # What follows addresses must run where they lead; it is tried in a forked process first.
        self._tried_first = executor.guarded and self._lowered.follows_addresses
        guarded = executor.guarded and not self._tried_first
        known = {**_SCALARS, "ptr": ("Q", _memory if guarded else _address)}
        if unknown := set(kinds) - known.keys():
            raise NotExecuted(f"it takes a scalar of type {min(unknown)}")
        self._takes = [(*taken, known[kind][1]) for taken, kind in zip(takes, kinds)]
        self._layout = struct.Struct("5q" + "".join(known[kind][0] for kind in kinds))
        self._pack = self._layout.pack
        self._entry = None if guarded else worker.load(str(self._lowered.library))
        self._lock = threading.Lock()

    def launch(self, x: int, y: int, z: int, arguments: Sequence[Any]) -> Sequence[str]:
        """Compute; the names of arguments whose results depend on memory that was never written."""
        slots = [convert(arguments[number], name) for number, name, convert in self._takes]
        if self._entry is None:
            return GUARD.launch(Call(self._lowered.library, self._layout, (x, y, z), slots))
        with self._lock:  # a library has one ring of buffers, and one lock and workspace
            call = self._pack(x, y, z, x * y * z, -1, *slots)
            if self._tried_first:
                _try(self._entry, call)
            self._entry(call)
        return ()


#: The format of scalars, as `struct` has it, and how one is made: an fp32 is inf where struct would refuse.
_SCALARS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(
        ("i1", "i8", "i16", "i32", "i64"), ("Q", lambda value, _: int(value) & 0xFFFF_FFFF_FFFF_FFFF)
    ),
    "f32": ("f4x", lambda value, _: ctypes.c_float(value).value),
    "f64": ("d", lambda value, _: float(value)),
}

_at_buffer = ctypes.c_char.from_buffer


def _address(value: Any, name: str) -> int:
    if hasattr(type(value), "__array_interface__"):
        try:  # a quarter of the time that the interface takes
            return ctypes.addressof(_at_buffer(value))
        except (TypeError, ValueError):
            """It is read-only, empty or not contiguous."""
    value = _unwrapped(value)
    if hasattr(value, "untyped_storage"):
        if not value.is_cpu:
            raise NotExecuted(f"its argument {name} lies on the device {value.device.type}, not in memory")
        return int(value.data_ptr())
    interface = getattr(value, "__array_interface__", None)
    if interface is None:
        raise NotExecuted(f"its argument {name} is a {type(value).__name__}, which has no memory")
    return int(interface["data"][0])


def _unwrapped(value: Any) -> Any:
    """The tensor in what `triton.reinterpret` gives."""
    return value.base if type(value).__name__ == "TensorWrapper" else value


def _memory(value: Any, name: str) -> Memory:
    pointer, value = _address(value, name), _unwrapped(value)
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        return Memory((name,), pointer, storage.data_ptr(), storage.nbytes(), True)
    owner = value
    while hasattr(owner.base, "__array_interface__"):
        owner = owner.base
    start, is_readonly = owner.__array_interface__["data"]
    return Memory((name,), pointer, start, owner.nbytes, not is_readonly)


def _try(entry: Callable[[bytes], None], call: bytes) -> None:
    """Run in a forked copy of this process first: what crashes crashes there."""
    child = os.fork()
    if child == 0:
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, guarding.TIME_LIMIT)
        entry(call)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        raise DoesNotEnd
    if os.WIFSIGNALED(status):
        raise ExecutionFault(f"crashed: {signal.Signals(os.WTERMSIG(status)).name}")


def _label(kernel: Any) -> str:
    """The kernel and its constexprs, as messages name it."""
    config = ", ".join(f"{name}={value}" for name, value in arguments_of(kernel.src)[0].items())
    return f"{kernel.src.name} [{config}]" if config else str(kernel.src.name)
