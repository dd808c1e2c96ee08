"""Looks at an installation: where it is, which release line its files are, and whether they are patched.

Told from the files' hashes only. Nothing here imports Triton or changes anything.
"""

from __future__ import annotations

import importlib.util
import os
import stat
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.store import ReleaseLine, sha256

#: Every release line patches this file, and no two lines have the same one.
_FRONT_END = "triton/compiler/compiler.py"

#: An error class that every triton-ascend has, and no upstream Triton.
_OF_ASCEND = b"MLIRCompilationError"


class State(Enum):
    """What the files of an installation are."""

    PRISTINE = "not patched"
    PATCHED = "patched"


@dataclass(frozen=True)
class Installation:
    """A release line's files in `site`, all known and all in one state. `files` maps path to content."""

    site: Path
    line: ReleaseLine
    state: State
    files: dict[str, bytes]


def find_site(given: Path | None = None) -> Path:
    """The folder that holds the `triton` package: `given`, or where this environment imports it from.

    Raises:
        PatchError: there is no triton package.
    """
    if given is None:
        spec = importlib.util.find_spec("triton")
        if spec is None or spec.origin is None:
            raise PatchError(
                "no triton package in this environment: install triton-ascend, or give --site DIR"
            )
        given = Path(spec.origin).parent.parent
    elif not (given / _FRONT_END).is_file():
        python = given / "python"  # where a source tree has it
        hint = f"; did you mean --site {python}?" if (python / _FRONT_END).is_file() else ""
        raise PatchError(f"{given} does not hold a triton package (no {_FRONT_END} in it){hint}")
    return given.resolve()


def read_file(site: Path, path: str) -> bytes:
    """The content of `site/path`.

    Raises:
        PatchError: it is missing, not a regular file, or reached through a symlink below `site`. A symlink
            leads to a file that belongs to something else, or would be replaced by a file.
    """
    place = site
    for part in Path(path).parts:
        place = place / part
        try:
            mode = os.lstat(place).st_mode
        except OSError as error:
            raise PatchError(f"{place}: {error.strerror}") from None
        if stat.S_ISLNK(mode):
            target = os.path.realpath(place)
            raise PatchError(f"{place} is a symlink (to {target}): patch the installation it leads to")
    if not stat.S_ISREG(mode):
        raise PatchError(f"{place} is not a regular file")
    try:
        return place.read_bytes()
    except OSError as error:
        raise PatchError(f"{place}: {error.strerror}") from None


def recognise(site: Path, lines: list[ReleaseLine]) -> Installation:
    """The installation in `site`, if each of its files is known exactly and all are in the same state.

    Raises:
        PatchError: a file is unknown, edited, or patched while another is not.
    """
    front_end = sha256(read_file(site, _FRONT_END))
    for line in lines:
        if any(front_end in history for history in line.histories(_FRONT_END)):
            return _recognise_line(site, line)
    for line in lines:
        _explain_near_miss(site, line, _FRONT_END)
    if _OF_ASCEND not in read_file(site, _FRONT_END):
        raise PatchError(
            f"{site / 'triton'} is upstream's, not triton-ascend: {_FRONT_END} has no {_OF_ASCEND.decode()} "
            "(in a checkout of triton-ascend's main the build changes upstream's files: patch after that)"
        )
    names = ", ".join(line.name for line in lines)
    raise PatchError(
        f"{site / _FRONT_END} is of no known triton-ascend release (lines {names}), or was edited: "
        f"sha256 {front_end}"
    )


def _recognise_line(site: Path, line: ReleaseLine) -> Installation:
    files = {path: read_file(site, path) for path in line.paths}
    possible = set(range(len(line.patches) + 1))
    for path, data in files.items():
        stages = {
            stage
            for history in line.histories(path)
            for stage, digest in enumerate(history)
            if digest == sha256(data)
        }
        if not stages:
            _explain_near_miss(site, line, path)
            raise PatchError(f"{site / path} was edited by somebody else: not the file of line {line.name}")
        possible &= stages
    for stage, state in ((0, State.PRISTINE), (len(line.patches), State.PATCHED)):
        if stage in possible:
            return Installation(site, line, state, files)
    raise PatchError(
        f"{site / 'triton'} is partly patched, and not by this tool: take the patches of line {line.name} "
        "out by hand (patch -R), or install triton-ascend again"
    )


def _explain_near_miss(site: Path, line: ReleaseLine, path: str) -> None:
    """Raise where the file would be known but for its line ends."""
    data = read_file(site, path)
    known = {digest for history in line.histories(path) for digest in history}
    unix = data.replace(b"\r\n", b"\n")
    if unix != data and known & {sha256(unix), sha256(unix + b"\n")}:
        raise PatchError(f"{site / path} has CRLF line ends: restore the file as it was released")
    if known & {sha256(data + b"\n"), sha256(data.rstrip(b"\n"))}:
        raise PatchError(f"{site / path} differs in its final newline: restore the file as it was released")
