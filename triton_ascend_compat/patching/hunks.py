"""Applies the parsed diff of one file to that file's bytes, strictly and in memory.

No fuzz, no offset guessing: the old lines of a hunk must stand in the file exactly once, byte for byte.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from triton_ascend_compat.patching.errors import PatchError

if TYPE_CHECKING:
    from unidiff.patch import Hunk, PatchedFile


def apply_hunks(diff: PatchedFile, data: bytes) -> bytes:
    """`data` with every hunk of `diff` applied.

    Raises:
        PatchError: the old lines of a hunk are not in `data`, or are there more than once.
    """
    lines = io.BytesIO(data).readlines()
    result: list[bytes] = []
    done = 0  # hunks come in the order of the file: the next one lies behind the last one
    for number, hunk in enumerate(diff, start=1):
        old, new = _lines(hunk, "-"), _lines(hunk, "+")
        places = [at for at in range(len(lines)) if old and lines[at : at + len(old)] == old]
        if len(places) != 1 or places[0] < done:
            found = "is not in the file" if not places else "does not have one place in the file"
            raise PatchError(f"{diff.path}: hunk {number} (line {hunk.source_start}) {found}")
        result += [*lines[done : places[0]], *new]
        done = places[0] + len(old)
    return b"".join([*result, *lines[done:]])


def _lines(hunk: Hunk, side: str) -> list[bytes]:
    """The lines of one side of `hunk` ("-" old, "+" new), with their line ends as bytes."""
    lines: list[bytes] = []
    last_is_ours = False
    for line in hunk:
        # "\ No newline at end of file" speaks of the line before it.
        if line.line_type == "\\" and last_is_ours:
            lines[-1] = lines[-1].rstrip(b"\n")
        last_is_ours = line.line_type in (" ", side)
        if last_is_ours:
            lines.append(line.value.encode())
    return lines
