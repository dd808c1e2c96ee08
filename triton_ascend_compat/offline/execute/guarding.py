"""Guarded launches: each array lies between zones of known bytes, and the code runs in a process of its own.

A launch runs twice, over an ordinary byte that differs from array to array and over 0xFF. Changed zones are
writes outside of an array. Results that differ are reads of memory that was never written. A crash, or a
program that never ends, costs the process and is the kernel's error.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from triton_ascend_compat.offline.execute import worker

#: Bytes before and behind each array.
ZONE = 64 * 1024

#: An array keeps its address modulo this many bytes.
_ALIGNMENT = 512

#: Bytes for the argument slots, and for the compiler's own two buffers, at the start of a copy.
_SLOTS, _OWN = 4096, 4096

#: Above this many bytes, the memory of a launch is given back after it.
_KEPT = 256 << 20

#: Seconds for one launch.
TIME_LIMIT = 60.0

_FILL = 0xFF


class ExecutionFault(RuntimeError):
    """A computed launch wrote outside of its arguments, crashed, or did not end."""


class _DoesNotEnd(ExecutionFault):
    """Too slow to look for the first program that does not end."""


class Memory(NamedTuple):
    """What an argument points to: `elements` of them from the address `pointer` on, in a storage of `size`
    bytes from `start` on."""

    name: str
    pointer: int
    start: int
    size: int
    elements: int


class Grid(NamedTuple):
    """The numbers of programs in x, y and z."""

    x: int
    y: int
    z: int

    @property
    def programs(self) -> int:
        return self.x * self.y * self.z

    def program(self, number: int) -> tuple[int, int, int]:
        """The ids of the program that runs as the `number`-th (from 0)."""
        return number % self.x, number // self.x % self.y, number // (self.x * self.y)


class Found(NamedTuple):
    """What a guarded launch showed: `writes` outside of arguments, in words, and whether what it left in
    `unwritten`, names of arguments, depends on memory that was never written."""

    writes: tuple[str, ...]
    unwritten: tuple[str, ...]


class _Region(NamedTuple):
    """Arguments that share memory, and where their copy lies."""

    names: tuple[str, ...]
    start: int
    size: int
    offset: int

    @classmethod
    def place(cls, memories: Sequence[Memory], offset: int) -> tuple[list[_Region], int]:
        """Regions for these arguments from `offset` on, and the end of the last zone."""
        regions: list[_Region] = []
        for memory in sorted(memories, key=lambda one: one.start):
            last = regions[-1] if regions else None
            if last is not None and memory.start < last.start + last.size:
                end = max(last.start + last.size, memory.start + memory.size)
                regions[-1] = last._replace(names=(*last.names, memory.name), size=end - last.start)
                offset = regions[-1].offset + regions[-1].size + ZONE
                continue
            offset += ZONE
            offset += (memory.start - offset) % _ALIGNMENT
            regions.append(cls((memory.name,), memory.start, memory.size, offset))
            offset += memory.size + ZONE
        return regions, offset


_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Guard:
    """The shared memory and the process of guarded launches; there is one in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._file = -1
        self._base = 0
        self._its_base = 0
        self._patterns: dict[int, Any] = {}

    def launch(self, library: Path, slots: Sequence[Memory | bytes], grid: Grid) -> Found:
        """Run a kernel twice and copy its results, if nothing was written outside, into the arguments.

        `slots`: its arguments in order, arrays or a scalar's eight bytes.

        Raises:
            ExecutionFault: it crashed or did not end.
        """
        with self._lock:
            self._open()
            memories = [slot for slot in slots if isinstance(slot, Memory)]
            size = _SLOTS + 2 * _OWN
            regions, end = _Region.place(memories, size)
            end += -end % mmap.PAGESIZE
            os.ftruncate(self._file, max(2 * end, os.fstat(self._file).st_size))
            try:
                found = self._run_twice(library, slots, regions, grid, end)
                if not found.writes:
                    for region in regions:
                        copy = self._base + end + region.offset
                        if _libc.memcmp(region.start, copy, region.size):
                            ctypes.memmove(region.start, copy, region.size)
                return found
            finally:
                if 2 * end > _KEPT:
                    os.ftruncate(self._file, 0)

    def _run_twice(
        self, library: Path, slots: Sequence[Memory | bytes], regions: list[_Region], grid: Grid, end: int
    ) -> Found:
        def run(first_run: bool, programs: int) -> None:
            runs = []
            for number in (0, 1) if first_run else (1,):
                self._fill(slots, regions, number * end, ordinary=number == 0)
                fill = 0x5A if number == 0 else _FILL
                runs.append((number * end, *grid, 0, programs, fill))
            self._ask(library, runs)

        def touched() -> list[str]:
            return [*self._touched(regions, 0, True), *self._touched(regions, end, False)]

        fault = None
        try:
            run(True, grid.programs)
            writes = touched()
        except _DoesNotEnd:
            raise
        except ExecutionFault as error:
            fault, writes = error, []
        if fault is None and not writes:
            unwritten = [
                ", ".join(region.names)
                for region in regions
                if _libc.memcmp(self._base + region.offset, self._base + end + region.offset, region.size)
            ]
            return Found((), tuple(unwritten))
        culprit = grid.program(self._culprit(run, touched, grid.programs))
        if fault is not None:
            raise ExecutionFault(f"program {culprit} {fault}")
        return Found(tuple(f"program {culprit} {told}" for told in dict.fromkeys(writes)), ())

    def _culprit(self, run: Any, touched: Any, programs: int) -> int:
        """The number of the first program that goes wrong, by running fewer and fewer of them."""
        good, bad = 0, programs
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                run(True, middle)
                wrong = bool(touched())
            except ExecutionFault:
                wrong = True
            good, bad = (good, middle) if wrong else (middle, bad)
        return bad - 1

    def _fill(self, slots: Sequence[Memory | bytes], regions: list[_Region], at: int, ordinary: bool) -> None:
        """Write a copy of the arguments between zones, and their slots, at offset `at`."""
        base, its = self._base + at, self._its_base + at
        ctypes.memset(base + _SLOTS, 0, 2 * _OWN)
        packed = [struct.pack("4q", its + _SLOTS, _OWN, its + _SLOTS + _OWN, _OWN)]
        for number, region in enumerate(regions):
            byte, data = _byte(number, ordinary), base + region.offset
            ctypes.memset(data - ZONE, byte, ZONE)
            ctypes.memmove(data, region.start, region.size)
            ctypes.memset(data + region.size, byte, ZONE)
        for slot in slots:
            if isinstance(slot, Memory):
                region = next(one for one in regions if slot.name in one.names)
                pointer = its + region.offset + slot.pointer - region.start
                packed.append(struct.pack("2q", pointer, slot.elements))
            else:
                packed.append(slot)
        content = b"".join(packed)
        ctypes.memmove(base, content, len(content))

    def _touched(self, regions: list[_Region], at: int, ordinary: bool) -> list[str]:
        told = []
        for number, region in enumerate(regions):
            pattern = self._pattern(_byte(number, ordinary))
            names, data = " and ".join(region.names), self._base + at + region.offset
            for start, where in (
                (data + region.size, "behind the end of"),
                (data - ZONE, "before the start of"),
            ):
                if not _libc.memcmp(start, pattern, ZONE):
                    continue
                zone, byte = ctypes.string_at(start, ZONE), _byte(number, ordinary)
                away = [k for k, value in enumerate(zone if start > data else zone[::-1]) if value != byte]
                told.append(f"wrote {away[0]} to {away[-1] + 1} bytes {where} {names} ({region.size} bytes)")
        return told

    def _pattern(self, byte: int) -> Any:
        if byte not in self._patterns:
            self._patterns[byte] = ctypes.create_string_buffer(bytes([byte]) * ZONE, ZONE)
        return self._patterns[byte]

    # The process.

    def _open(self) -> None:
        if self._owner != os.getpid():  # in a forked child, the process is the parent's
            self._owner, self._process = os.getpid(), None
            self._file = os.memfd_create("ascend-execute")
            self._base = worker.map_shared(self._file)
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", worker.__file__, str(self._file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._file,),
            )
            self._its_base = int(self._answer(self._process).decode())

    def _ask(self, library: Path, runs: Sequence[tuple[int, ...]]) -> None:
        self._open()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        words = [str(library), *(str(number) for run in runs for number in run)]
        process.stdin.write("\t".join(words).encode() + b"\n")
        process.stdin.flush()
        self._answer(process)

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], TIME_LIMIT)
        if not ready:
            self.close()
            raise _DoesNotEnd(
                f"did not end within {TIME_LIMIT:g} s (programs run one after the other: one that waits "
                "for a later one never ends)"
            )
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.close()
            raise ExecutionFault(f"crashed: {_death(code)}")
        return line

    def close(self) -> None:
        """End the process; a later launch starts another."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _byte(number: int, ordinary: bool) -> int:
    return 0x21 + number % 64 if ordinary else _FILL


def _death(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"its process ended with exit code {code}"


GUARD = Guard()
atexit.register(GUARD.close)
