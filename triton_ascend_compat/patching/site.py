"""Looks at an installation: where it is, which release line its files are, and whether they are patched.

Told from the files' hashes only. Nothing here imports Triton or changes anything.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.files import exists, read_file
from triton_ascend_compat.patching.store import ReleaseLine, sha256

#: Every release line patches this file, and no two lines have the same one.
_FRONT_END = "triton/compiler/compiler.py"

#: An error class that every triton-ascend has, and no upstream Triton.
_OF_ASCEND = b"MLIRCompilationError"


@dataclass(frozen=True)
class Installation:
    """A release line's files in a site, all known and all patched or none. `files` maps path to content."""

    line: ReleaseLine
    is_patched: bool
    files: dict[str, bytes]

    def patched(self) -> dict[str, bytes]:
        """What the files of an unpatched installation become."""
        return {path: self.line.patched(path, data) for path, data in self.files.items()}


def find_site(given: Path | None = None) -> Path:
    """The folder that holds the `triton` package: `given`, or where this environment imports it from.

    Raises:
        PatchError: there is no triton package.
        OSError: that cannot be told.
    """
    if given is None:
        spec = importlib.util.find_spec("triton")
        if spec is None or spec.origin is None:
            raise PatchError(
                "no triton package in this environment: install triton-ascend or give --site DIR"
            )
        given = Path(spec.origin).parent.parent
    elif not exists(given / _FRONT_END):
        python = given / "python"  # where a source tree has it
        hint = f"; did you mean --site {python}?" if exists(python / _FRONT_END) else ""
        raise PatchError(f"{given} does not hold a triton package (no {_FRONT_END} in it){hint}")
    return given.resolve()


def recognise(site: Path, lines: Sequence[ReleaseLine]) -> Installation:
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
    for stage in possible & {0, len(line.patches)}:
        return Installation(line, stage > 0, files)
    raise PatchError(
        f"{site / 'triton'} is partly patched, and not by this tool: take the patches of line {line.name} "
        "out by hand (patch -R), or install triton-ascend again"
    )


def _explain_near_miss(site: Path, line: ReleaseLine, path: str) -> None:
    """Raise where the file would be known but for its line ends."""
    unix = read_file(site, path).replace(b"\r\n", b"\n")
    known = {digest for history in line.histories(path) for digest in history}
    if known & {sha256(unix), sha256(unix + b"\n"), sha256(unix.rstrip(b"\n"))}:
        raise PatchError(f"{site / path} has CRLF line ends or another final newline: restore it as released")
