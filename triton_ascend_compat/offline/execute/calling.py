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

from triton_ascend_compat.offline.execute import lowering, worker
from triton_ascend_compat.offline.execute.guarding import GUARD, ExecutionFault, Grid, Memory
from triton_ascend_compat.offline.execute.library import NotExecuted

#: Bytes of zeros for the compiler's lock and workspace.
_OWN = 4096

_FORMATS = {"f32": "f4x", "f64": "d"}


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


_thread = threading.local()


@contextlib.contextmanager
def trial() -> Iterator[None]:
    """Launches on this thread are a tuner's trials: they are not computed."""
    before, _thread.trial = getattr(_thread, "trial", False), True
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
        self._tools = lowering.Tools.find(tools)
        self._cache = lowering.private_folder(cache)

    def launcher(self, kernel: Any) -> Callable[..., None]:
        """What takes the place of a compiled kernel's `run`."""
        prepared: list[_Kernel] = []

        def launch(x: int, y: int, z: int, stream: Any, function: Any, *rest: Any, **_: Any) -> None:
            if getattr(_thread, "trial", False):
                self.tally.trials += 1
                return
            try:
                if not prepared:
                    prepared.append(_Kernel(kernel, self._tools, self._cache, self.guarded))
                told = prepared[0].launch(Grid(x, y, z), rest[4:])
            except NotExecuted as reason:
                self._refuse(kernel, str(reason))
                return
            except ExecutionFault as fault:
                text = f"kernel {_label(kernel)}: {fault}"
                self.tally.faults[text] += 1
                raise ExecutionFault(text) from None
            self.tally.computed += 1
            for line in told:
                text = f"kernel {_label(kernel)}: {line}"
                self.tally.faults[text] += 1
                warnings.warn(text, UnwrittenWarning, stacklevel=5)

        return launch

    def _refuse(self, kernel: Any, reason: str) -> None:
        self.tally.refused[_name(kernel), reason] += 1
        text = f"kernel {_label(kernel)} was not executed: {reason}"
        warnings.warn(text, NotExecutedWarning, stacklevel=6)


class _Kernel:
    """One compiled kernel with its machine code."""

    def __init__(self, kernel: Any, tools: lowering.Tools, cache: Path, guarded: bool) -> None:
        text = kernel.asm.get("ttadapter")
        if text is None:
            raise NotExecuted("it has no linalg text (a SIMT-only kernel)")
        self._lowered = lowering.lower(text, guarded, tools, cache)
        self._guarded = guarded and not self._lowered.follows_addresses
        self._tried = not (guarded and self._lowered.follows_addresses)
        names = list(kernel.src.signature)
        absent = {names[key] if isinstance(key, int) else key for key in kernel.src.constants}
        self._takes = [(number, name) for number, name in enumerate(names) if name not in absent]
        self._kinds = self._lowered.kinds[2:]
        if len(self._takes) != len(self._kinds):
            raise NotExecuted(f"it takes {len(self._kinds)} arguments and is given {len(self._takes)}")
        self._entry = None if self._guarded else worker.load(str(self._lowered.library))
        self._lock = threading.Lock()

    def launch(self, grid: Grid, arguments: Sequence[Any]) -> list[str]:
        """Compute; what there is to say about it, in words."""
        slots = [self._slot(arguments[n], name, kind) for (n, name), kind in zip(self._takes, self._kinds)]
        if self._guarded:
            found = GUARD.launch(self._lowered.library, slots, grid)
            if found.writes:
                raise ExecutionFault("; ".join(found.writes))
            return [f"{names} depends on memory that was never written" for names in found.unwritten]
        own = bytearray(2 * _OWN)
        at = ctypes.addressof((ctypes.c_char * len(own)).from_buffer(own))
        packed = b"".join(
            [
                struct.pack("4q", at, _OWN, at + _OWN, _OWN),
                *(
                    struct.pack("2q", slot.pointer, slot.elements) if isinstance(slot, Memory) else slot
                    for slot in slots
                ),
            ]
        )
        assert self._entry is not None
        with self._lock:  # a library has one list of buffers
            if not self._tried:
                _survives(lambda: self._entry(packed, *grid, 0, grid.programs, -1))  # type: ignore[misc]
            self._entry(packed, *grid, 0, grid.programs, -1)
        return []

    def _slot(self, value: Any, name: str, kind: str) -> Memory | bytes:
        if kind == "ptr":
            return _memory(value, name)
        if kind in _FORMATS:
            return struct.pack(_FORMATS[kind], float(value))
        if kind.startswith("i"):
            return struct.pack("Q", int(value) & 0xFFFF_FFFF_FFFF_FFFF)
        raise NotExecuted(f"its argument {name} is a scalar of type {kind}")


def _memory(value: Any, name: str) -> Memory:
    if type(value).__name__ == "TensorWrapper":  # what triton.reinterpret gives
        value = value.base
    if hasattr(value, "untyped_storage"):
        device = value.device.type
        if device != "cpu":
            raise NotExecuted(f"its argument {name} lies on the device {device}, and has no memory here")
        storage = value.untyped_storage()
        return Memory(name, value.data_ptr(), storage.data_ptr(), storage.nbytes(), value.numel())
    interface = getattr(value, "__array_interface__", None)
    if interface is None:
        raise NotExecuted(f"its argument {name} is a {type(value).__name__}, which has no memory")
    owner = value
    while getattr(owner.base, "__array_interface__", None) is not None:
        owner = owner.base
    start = owner.__array_interface__["data"][0]
    return Memory(name, interface["data"][0], start, owner.nbytes, value.size)


def _survives(run: Callable[[], None]) -> None:
    """Run in a forked copy of this process first: what crashes crashes there."""
    child = os.fork()
    if child == 0:
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(60)
        run()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise ExecutionFault(f"crashed: {signal.Signals(os.WTERMSIG(status)).name}")


def _name(kernel: Any) -> str:
    return str(getattr(kernel.src, "name", kernel.metadata.name))


def _label(kernel: Any) -> str:
    """The kernel and its constexprs, as messages name it."""
    fn = getattr(kernel.src, "fn", None)
    constants: Mapping[Any, Any] = kernel.src.constants
    wanted = {param.name for param in fn.params if param.is_constexpr} if fn is not None else set()
    config = ", ".join(
        f"{name}={getattr(value, 'value', value)}" for name, value in constants.items() if name in wanted
    )
    return f"{_name(kernel)} [{config}]" if config else _name(kernel)
