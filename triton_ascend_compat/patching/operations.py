"""What `triton-ascend-compat patch` does: check, apply, revert.

Each returns a `Result` whose two lines are for a person. Nothing is changed where one raises `PatchError`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.site import State, read_file, recognise
from triton_ascend_compat.patching.store import ReleaseLine, release_lines, sha256
from triton_ascend_compat.patching.transaction import FileRecord, PatchFolder, Record

_NOTHING = "nothing to do"
_DRY_RUN = "nothing was changed (dry run)"


class Condition(Enum):
    """What an installation is after an operation."""

    PATCHED = "patched"
    NOT_PATCHED = "not patched"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Result:
    """The condition afterwards, two lines that say what was done, and the changes as a diff (dry run)."""

    condition: Condition
    lines: tuple[str, str]
    diff: str = field(default="", repr=False)


def check(site: Path, lines: list[ReleaseLine] | None = None) -> Result:
    """Whether the triton-ascend in `site` is patched. Changes nothing."""
    folder = PatchFolder(site)
    if folder.interrupted:
        return Result(
            Condition.INTERRUPTED,
            (f"an earlier run in {site} was interrupted", "'patch apply' or 'patch revert' undoes it first"),
        )
    if _applied_and_untouched(folder):
        return _patched(site, folder.record(), "'patch revert' restores every byte")
    found = recognise(site, _lines(lines))
    if found.state is State.PATCHED:
        return _patched(site, None, "'patch revert' is not possible: this tool has no originals")
    return Result(
        Condition.NOT_PATCHED,
        (
            f"not patched: triton-ascend of line {found.line.name} in {site}",
            f"'patch apply' would change {_count(len(found.files), 'file')}: {', '.join(found.files)}",
        ),
    )


def apply(site: Path, dry_run: bool = False, lines: list[ReleaseLine] | None = None) -> Result:
    """Patch the triton-ascend in `site`; undo an interrupted run first."""
    known, folder = _lines(lines), PatchFolder(site)
    if not folder.interrupted:
        if _applied_and_untouched(folder):
            return _patched(site, folder.record(), _NOTHING)
        found = recognise(site, known)
        if found.state is State.PATCHED:
            return _patched(site, None, _NOTHING)
        new = {path: found.line.patched(path, data) for path, data in found.files.items()}
        if dry_run:
            first = f"would patch {_count(len(new), 'file')} of line {found.line.name} in {site}"
            return Result(Condition.NOT_PATCHED, (first, _DRY_RUN), _diff(found.files, new))
        _check_writable(site, found.files)
    elif dry_run:
        raise PatchError(f"an earlier run in {site} was interrupted: 'patch apply' undoes it first")
    with folder.locked():
        undone = folder.recover()
        # Another run may have come first: look again now that none can.
        found = recognise(site, known)
        if found.state is State.PATCHED:
            return _patched(site, folder.record(), _NOTHING)
        new = {path: found.line.patched(path, data) for path, data in found.files.items()}
        # A file that only later patches touch defines what the others then import (an error class): it goes
        # first, so that a Triton whose patching was killed half-way still works.
        files = tuple(
            FileRecord(path, sha256(found.files[path]), sha256(new[path]))
            for path in reversed(found.line.paths)
        )
        patches = tuple(patch.name for patch in found.line.patches)
        folder.apply(Record(found.line.name, patches, files), new)
    return Result(
        Condition.PATCHED,
        (
            f"patched {_count(len(new), 'file')} of triton-ascend, line {found.line.name}, in {site}: "
            f"{', '.join(patches)}",
            f"'patch revert' restores every byte{' (an interrupted run was undone first)' if undone else ''}",
        ),
    )


def revert(site: Path, dry_run: bool = False, lines: list[ReleaseLine] | None = None) -> Result:
    """Put the original files back into `site`; what an interrupted run has left, too."""
    folder = PatchFolder(site)
    if dry_run and folder.interrupted:
        raise PatchError(f"an earlier run in {site} was interrupted: 'patch revert' undoes it first")
    record = folder.record()
    if not folder.interrupted and record is None:
        _refuse_foreign_patches(site, lines)
        if dry_run or not folder.path.exists():
            return _nothing_to_revert(site)
    if dry_run and record is not None:
        now = {file.path: read_file(site, file.path) for file in record.files}
        old = folder.read_originals(record)
        first = f"would restore {_count(len(old), 'file')} in {site}"
        return Result(Condition.PATCHED, (first, _DRY_RUN), _diff(now, old))
    if record is not None:
        _check_writable(site, [file.path for file in record.files])
    with folder.locked():
        if folder.recover():
            done = (f"undid an interrupted run in {site}", "the original files are in place")
            return Result(Condition.NOT_PATCHED, done)
        record = folder.record()
        if record is None:
            return _nothing_to_revert(site)
        folder.revert(record)
    return Result(
        Condition.NOT_PATCHED,
        (
            f"restored {_count(len(record.files), 'file')} of triton-ascend, line {record.line}, in {site}",
            "every byte is as it was before the patches",
        ),
    )


def _refuse_foreign_patches(site: Path, lines: list[ReleaseLine] | None) -> None:
    found = recognise(site, _lines(lines))
    if found.state is State.PATCHED:
        raise PatchError(
            f"{site / 'triton'} is patched, but not by this tool, which therefore has no originals: "
            f"take the patches of line {found.line.name} out with patch -R, or install triton-ascend again"
        )


def _nothing_to_revert(site: Path) -> Result:
    return Result(Condition.NOT_PATCHED, (f"not patched: {site / 'triton'}", _NOTHING))


def _lines(lines: list[ReleaseLine] | None) -> list[ReleaseLine]:
    return release_lines() if lines is None else lines


def _applied_and_untouched(folder: PatchFolder) -> bool:
    """Whether this tool has patched the site, and the files are as it left them.

    Asked from the record and not from the patches: those may be of another version than what was applied.
    """
    record = folder.record()
    return record is not None and all(
        sha256(read_file(folder.site, file.path)) == file.after for file in record.files
    )


def _patched(site: Path, record: Record | None, second: str) -> Result:
    by = f"line {record.line}, {', '.join(record.patches)}" if record else "not by this tool"
    return Result(Condition.PATCHED, (f"patched: {site / 'triton'} ({by})", second))


def _check_writable(site: Path, paths: Iterable[str]) -> None:
    """A clear word before anything is tried; the transaction copes with what this cannot foresee."""
    for folder in dict.fromkeys([site, *((site / path).parent for path in paths)]):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PatchError(f"{folder} is not writable: nothing was changed")


def _diff(old: dict[str, bytes], new: dict[str, bytes]) -> str:
    """A diff that `patch -p1` understands."""
    text = ""
    for path in old:
        before, after = (data[path].decode().splitlines(keepends=True) for data in (old, new))
        for line in difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"):
            text += line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
    return text


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
