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
import select
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple

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


def does_not_end() -> str:
    """What is said of a kernel that took longer than TIME_LIMIT."""
    return (
        f"did not end within {TIME_LIMIT:g} s (programs run one after the other: one that waits for a later "
        "one never ends)"
    )


class _DoesNotEnd(ExecutionFault):
    """Too slow to look for the first program that does not end."""


class Memory(NamedTuple):
    """What an argument points to: the address `pointer` in a storage of `size` bytes from `start` on, and
    whether that may be written."""

    name: str
    pointer: int
    start: int
    size: int
    writable: bool


class Grid(NamedTuple):
    """The numbers of programs in x, y and z; they run with x fastest."""

    x: int
    y: int
    z: int

    @property
    def programs(self) -> int:
        """How many programs run."""
        return self.x * self.y * self.z


Slots = Sequence["Memory | int | float"]


class _Region(NamedTuple):
    """Arguments that share memory, and where their copy lies."""

    names: tuple[str, ...]
    start: int
    size: int
    offset: int
    writable: bool


def _place(memories: Sequence[Memory]) -> tuple[list[_Region], int]:
    """Regions for these arguments, and the end of the last zone, in whole pages."""
    regions: list[_Region] = []
    end = _SLOTS
    for name, _, start, size, writable in sorted(memories, key=lambda memory: memory.start):
        last = regions[-1] if regions else None
        if last is not None and start < last.start + last.size:
            size = max(last.size, start + size - last.start)
            writable = writable and last.writable
            regions[-1] = last._replace(names=(*last.names, name), size=size, writable=writable)
        else:
            end += ZONE
            regions.append(_Region((name,), start, size, end + (start - end) % _ALIGNMENT, writable))
        end = regions[-1].offset + size + ZONE
    return regions, end + -end % mmap.PAGESIZE


_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Guard:
    """The shared memory and the process of guarded launches; there is one in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = self._file = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._base = self._its_base = 0
        self._zones: list[tuple[int, int]] = []  # the arrays around which zones are filled and untouched

    def launch(self, library: Path, layout: struct.Struct, slots: Slots, grid: Grid) -> tuple[str, ...]:
        """Run a kernel twice and copy its results into the arguments; the names of those whose results depend
        on memory that was never written. `layout`: what the entry takes: the grid, how many programs, the
        byte that fills buffers, and `slots`.

        Raises:
            ExecutionFault: it wrote outside of its arguments, crashed or did not end.
        """
        with self._lock:
            self._open()
            regions, end = _place([slot for slot in slots if isinstance(slot, Memory)])
            os.ftruncate(self._file, max(2 * end, os.fstat(self._file).st_size))
            try:
                self._check(functools.partial(self._run, library, layout, slots, regions, grid, end), grid)
                copies = [(region, self._base + region.offset) for region in regions]
                unwritten = [region for region, copy in copies if _libc.memcmp(copy, copy + end, region.size)]
                for region, copy in copies:
                    if _libc.memcmp(region.start, copy + end, region.size):
                        if not region.writable:
                            raise ExecutionFault(f"wrote to {' and '.join(region.names)}, which is read-only")
                        ctypes.memmove(region.start, copy + end, region.size)
                return tuple(", ".join(region.names) for region in unwritten)
            finally:
                if 2 * end > _KEPT:
                    self._zones = []
                    os.ftruncate(self._file, 0)

    def _check(self, run: Callable[[int], list[str]], grid: Grid) -> None:
        """Run all programs; if that goes wrong, find the first with which it does, by running fewer."""

        def wrongs(programs: int) -> list[str]:
            try:
                return run(programs)
            except _DoesNotEnd:
                raise
            except ExecutionFault as fault:
                return [str(fault)]

        told = wrongs(grid.programs)
        if not told:
            return
        good, bad = 0, grid.programs
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if wrongs(middle) else (middle, bad)
        program = (good % grid.x, good // grid.x % grid.y, good // (grid.x * grid.y))
        raise ExecutionFault("; ".join(f"program {program} {line}" for line in dict.fromkeys(told)))

    def _run(
        self,
        library: Path,
        layout: struct.Struct,
        slots: Slots,
        regions: list[_Region],
        grid: Grid,
        end: int,
        programs: int,
    ) -> list[str]:
        """Run the first `programs` of the grid on two copies; what they wrote outside, in words."""
        self._open()  # anew, at another address, where the last run ended the process
        zones = [(region.offset, region.size) for region in regions]
        is_filled, self._zones = zones == self._zones, []
        for at, fill in ((0, 0x5A), (end, 0xFF)):
            if not is_filled:
                self._fill(regions, at)
            self._copy(layout, (*grid, programs, fill), slots, regions, at)
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{library}\t0\t{end}\n".encode())
        self._process.stdin.flush()
        self._answer(self._process)
        told = [*self._touched(regions, 0), *self._touched(regions, end)]
        self._zones = [] if told else zones
        return told

    def _fill(self, regions: list[_Region], at: int) -> None:
        """Fill the zones around the copies at offset `at`."""
        for number, region in enumerate(regions):
            data, byte = self._base + at + region.offset, _byte(number, at)
            ctypes.memset(data - ZONE, byte, ZONE)
            ctypes.memset(data + region.size, byte, ZONE)

    def _copy(
        self, layout: struct.Struct, head: tuple[int, ...], slots: Slots, regions: list[_Region], at: int
    ) -> None:
        """Write a copy of the arguments, and their slots, at offset `at`."""
        base, its = self._base + at, self._its_base + at
        moved = {}
        for region in regions:
            ctypes.memmove(base + region.offset, region.start, region.size)
            moved.update(dict.fromkeys(region.names, its + region.offset - region.start))
        values = (moved[one.name] + one.pointer if isinstance(one, Memory) else one for one in slots)
        packed = layout.pack(*head, *values)
        ctypes.memmove(base, packed, len(packed))

    def _touched(self, regions: list[_Region], at: int) -> list[str]:
        told = []
        for number, region in enumerate(regions):
            byte, data = _byte(number, at), self._base + at + region.offset
            for start, step, where in (
                (data + region.size, 1, "behind the end of"),
                (data - ZONE, -1, "before the start of"),
            ):
                if _libc.memcmp(start, _pattern(byte), ZONE):
                    zone = ctypes.string_at(start, ZONE)[::step]
                    away = [distance for distance, value in enumerate(zone) if value != byte]
                    names = " and ".join(region.names)
                    told.append(
                        f"wrote {away[0]} to {away[-1] + 1} bytes {where} {names} ({region.size} bytes)"
                    )
        return told

    # The process.

    def _open(self) -> None:
        if self._owner != os.getpid():  # in a forked child, the process is the parent's
            self._owner, self._process = os.getpid(), None
            self._file = os.memfd_create("ascend-execute")
            self._base, self._zones = worker.map_shared(self._file), []
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", worker.__file__, str(self._file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._file,),
            )
            self._its_base = int(self._answer(self._process).decode())

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], TIME_LIMIT)[0]:
            self.close()
            raise _DoesNotEnd(does_not_end())
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.close()
            death = signal.Signals(-code).name if code < 0 else f"its process ended with exit code {code}"
            raise ExecutionFault(f"crashed: {death}")
        return line

    def close(self) -> None:
        """End the process; a later launch starts another."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            with process:
                """Closes its pipes and waits for it."""


def _byte(number: int, at: int) -> int:
    """What the zones around a region are filled with in the first copy, and in the second."""
    return 0xFF if at else 0x21 + number % 64


@functools.cache
def _pattern(byte: int) -> Any:
    return ctypes.create_string_buffer(bytes([byte]) * ZONE, ZONE)


GUARD = Guard()
atexit.register(GUARD.close)
