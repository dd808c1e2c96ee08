"""Guarded launches: each array lies between zones of known bytes, and the code runs in a process of its own.

A launch runs twice, over an ordinary byte that differs from array to array and over 0xFF. Changed zones are
writes outside of an array. Results that differ are reads of memory that was never written. A crash, or a
program that never ends, costs the process and is the kernel's error.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from triton_ascend_compat.offline.execute import worker

#: Bytes before and behind each array, which keeps its address modulo `_ALIGNMENT`.
ZONE = 64 * 1024
_ALIGNMENT = 512

#: Bytes before the arrays, for the arguments.
_SLOTS = 16384

#: Above this many bytes, the memory of a launch is given back after it.
_KEPT = 256 << 20

#: Seconds for one launch.
TIME_LIMIT = 60.0


class ExecutionFault(RuntimeError):
    """A computed launch wrote outside of its arguments, crashed, or did not end."""


class DoesNotEnd(ExecutionFault):
    """Too slow to look for the first program that does not end."""

    def __init__(self) -> None:
        super().__init__(
            f"did not end within {TIME_LIMIT:g} s (programs run one after the other: one that waits for a "
            "later one never ends)"
        )


class Memory(NamedTuple):
    """What an argument points to, `pointer`, in a storage of `size` bytes from `start` on; `names` are those
    of the arguments that share it."""

    names: tuple[str, ...]
    pointer: int
    start: int
    size: int
    writable: bool


class Call(NamedTuple):
    """A launch of the kernel in `library`. `layout` is that of what its entry takes: the grid, how many of
    its programs run (x fastest), the byte that fills buffers or -1, and `slots`, one for each argument."""

    library: Path
    layout: struct.Struct
    grid: tuple[int, int, int]
    slots: Sequence[Memory | int | float]


Placed = list[tuple[Memory, int]]


def _place(memories: Sequence[Memory]) -> tuple[Placed, int]:
    """The arrays, those that overlap as one, each with the place of its copy; and the end of the last zone,
    in whole pages."""
    placed: Placed = []
    end = _SLOTS
    for memory in sorted(memories, key=lambda memory: memory.start):
        before, at = placed[-1] if placed else (None, 0)
        if before is not None and memory.start < before.start + before.size:
            size = max(before.size, memory.start + memory.size - before.start)
            writable = before.writable and memory.writable
            memory = before._replace(names=before.names + memory.names, size=size, writable=writable)
            placed.pop()
        else:
            at = end + ZONE + (memory.start - end) % _ALIGNMENT
        placed.append((memory, at))
        end = at + memory.size + ZONE
    return placed, end + -end % mmap.PAGESIZE


_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Guard:
    """The shared memory and the process of guarded launches; there is one in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = self._file = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._channel = socket.socket(socket.AF_UNIX)
        self._base = self._its_base = self._size = 0
        self._zones: list[tuple[int, int]] = []  # the arrays around which zones are filled and untouched

    def launch(self, call: Call) -> list[str]:
        """Run a kernel twice and copy its results into the arguments; the names of those whose results depend
        on memory that was never written.

        Raises:
            ExecutionFault: it wrote outside of its arguments, crashed or did not end.
        """
        with self._lock:
            self._open()
            placed, end = _place([slot for slot in call.slots if isinstance(slot, Memory)])
            self._resize(max(2 * end, self._size))
            try:
                self._check(call, placed, end)
                return self._take(placed, end)
            finally:
                if 2 * end > _KEPT:
                    self._resize(0)

    def _check(self, call: Call, placed: Placed, end: int) -> None:
        """Run all programs; if that goes wrong, find the first with which it does, by running fewer."""

        def wrong(programs: int) -> tuple[str, ...]:
            try:
                self._run(call, placed, end, programs)
            except DoesNotEnd:
                raise
            except ExecutionFault as fault:
                return fault.args
            return ()

        x, y, z = call.grid
        good, bad = 0, x * y * z
        told = wrong(bad)
        while told and bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if wrong(middle) else (middle, bad)
        if told:
            program = (good % x, good // x % y, good // (x * y))
            raise ExecutionFault("; ".join(f"program {program} {line}" for line in dict.fromkeys(told)))

    def _run(self, call: Call, placed: Placed, end: int, programs: int) -> None:
        """Run the first `programs` of the grid on two copies."""
        if self._process is None:  # the last run ended it
            self._open()
        assert self._process is not None
        zones = [(at, memory.size) for memory, at in placed]
        is_filled, self._zones = zones == self._zones, []
        for copy, fill in ((0, 0x5A), (end, 0xFF)):
            if not is_filled:
                for start, byte, _, _ in self._around(placed, copy):
                    ctypes.memset(start, byte, ZONE)
            self._copy(call, placed, copy, (*call.grid, programs, fill))
        self._ask(self._process, f"{call.library}\t0\t{end}")
        touched = [
            _written(start, byte, is_behind, memory)
            for copy in (0, end)
            for start, byte, is_behind, memory in self._around(placed, copy)
            if _libc.memcmp(start, _pattern(byte), ZONE)
        ]
        if touched:
            raise ExecutionFault(*touched)
        self._zones = zones

    def _around(self, placed: Placed, copy: int) -> list[tuple[int, int, bool, Memory]]:
        """The zones of a copy: address, byte, whether it lies behind an array, and the array."""
        zones = []
        for number, (memory, at) in enumerate(placed):
            data, byte = self._base + copy + at, 0xFF if copy else 0x21 + number % 64
            zones += [(data + memory.size, byte, True, memory), (data - ZONE, byte, False, memory)]
        return zones

    def _copy(self, call: Call, placed: Placed, copy: int, head: tuple[int, ...]) -> None:
        """Write a copy of the arrays, and what the entry takes."""
        moved = {}
        for memory, at in placed:
            ctypes.memmove(self._base + copy + at, memory.start, memory.size)
            moved.update(dict.fromkeys(memory.names, self._its_base + copy + at - memory.start))
        slots = (moved[one.names[0]] + one.pointer if isinstance(one, Memory) else one for one in call.slots)
        packed = call.layout.pack(*head, *slots)
        ctypes.memmove(self._base + copy, packed, len(packed))

    def _take(self, placed: Placed, end: int) -> list[str]:
        """Copy the results into the arguments; the names of those that differ between the copies."""
        unwritten = []
        for memory, at in placed:
            first, second = self._base + at, self._base + at + end
            if _libc.memcmp(first, second, memory.size):
                unwritten.append(", ".join(memory.names))
            if _libc.memcmp(memory.start, second, memory.size):
                if not memory.writable:
                    raise ExecutionFault(f"wrote to {' and '.join(memory.names)}, which is read-only")
                ctypes.memmove(memory.start, second, memory.size)
        return unwritten

    # The process.

    def _open(self) -> None:
        if self._owner != os.getpid():  # in a forked child, the process is the parent's
            self._owner, self._process = os.getpid(), None
            self._file, self._size = os.memfd_create("ascend-execute"), 0
            self._base, self._zones = worker.map_shared(self._file), []
        if self._process is None or self._process.poll() is not None:
            self._channel.close()
            self._channel, its = socket.socketpair(type=socket.SOCK_SEQPACKET)
            command = [sys.executable, "-I", worker.__file__, str(self._file)]
            with its:
                self._process = subprocess.Popen(command, stdin=its.fileno(), pass_fds=(self._file,))
            self._its_base = int(self._ask(self._process, "nothing"))

    def _ask(self, process: subprocess.Popen[bytes], question: str) -> bytes:
        self._channel.settimeout(TIME_LIMIT)
        try:
            self._channel.send(question.encode())
            answer = self._channel.recv(64)
        except socket.timeout:
            self.close()
            raise DoesNotEnd from None
        except ConnectionError:
            answer = b""
        if not answer:
            code = process.wait()
            self.close()
            death = signal.Signals(-code).name if code < 0 else f"its process ended with exit code {code}"
            raise ExecutionFault(f"crashed: {death}")
        return answer

    def _resize(self, size: int) -> None:
        if size != self._size:
            os.ftruncate(self._file, size)
            self._size = size
            self._zones = self._zones if size else []

    def close(self) -> None:
        """End the process; a later launch starts another."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            self._channel.close()
            process.kill()
            process.wait()


def _written(start: int, byte: int, is_behind: bool, memory: Memory) -> str:
    """In words, what was written into a zone."""
    zone = ctypes.string_at(start, ZONE)[:: 1 if is_behind else -1]
    away = [distance for distance, value in enumerate(zone) if value != byte]
    where = "behind the end of" if is_behind else "before the start of"
    names = " and ".join(memory.names)
    return f"wrote {away[0]} to {away[-1] + 1} bytes {where} {names} ({memory.size} bytes)"


@functools.cache
def _pattern(byte: int) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(bytes([byte]) * ZONE, ZONE)


GUARD = Guard()
atexit.register(GUARD.close)
