"""What `triton-ascend-compat patch` does: check, apply, revert.

Each returns a `Result` whose two lines are for a person. Nothing is changed where one raises `PatchError` or
`OSError`, except for `UnfinishedError`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.files import exists, read_file
from triton_ascend_compat.patching.site import recognise
from triton_ascend_compat.patching.store import ReleaseLine, sha256
from triton_ascend_compat.patching.transaction import FileRecord, PatchFolder, Record

_NOTHING = "nothing to do"
_DRY_RUN = "nothing was changed (dry run)"
_REVERTED_BY = "'patch revert' restores every byte; uninstalling triton-ascend-compat does not"


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
    folder = PatchFolder(site, lines)
    if folder.unfinished():
        first = f"an earlier run in {site} was interrupted"
        return Result(Condition.INTERRUPTED, (first, "'patch apply' or 'patch revert' undoes it first"))
    if _applied_and_untouched(folder):
        return _patched(folder, _REVERTED_BY)
    found = recognise(site, folder.lines)
    if found.is_patched:
        return _patched(folder, "'patch revert' is not possible: this tool has no originals")
    first = f"not patched: triton-ascend of line {found.line.name} in {site}"
    return Result(Condition.NOT_PATCHED, (first, f"'patch apply' would change {', '.join(found.files)}"))


def apply(site: Path, dry_run: bool = False, lines: list[ReleaseLine] | None = None) -> Result:
    """Patch the triton-ascend in `site`. What an interrupted run has left must be undone before."""
    folder = PatchFolder(site, lines)
    _refuse_unfinished(folder)
    if _applied_and_untouched(folder) or (found := recognise(site, folder.lines)).is_patched:
        return _patched(folder, _NOTHING)
    if dry_run:
        new = found.patched()
        first = f"would patch triton-ascend, line {found.line.name}, in {site}: {', '.join(new)}"
        return Result(Condition.NOT_PATCHED, (first, _DRY_RUN), _diff(found.files, new))
    with folder.locked():
        # Another run may have come first: look again now that none can.
        _refuse_unfinished(folder)
        found = recognise(site, folder.lines)
        if found.is_patched:
            return _patched(folder, _NOTHING)
        new = found.patched()
        # A file that only later patches touch defines what the others then import (an error class): it goes
        # first, so that a Triton whose patching was killed half-way still works.
        order = reversed(found.line.paths)
        files = [FileRecord(path, sha256(found.files[path]), sha256(new[path])) for path in order]
        record = Record(found.line.name, [patch.name for patch in found.line.patches], files)
        folder.apply(record, new)
    first = f"patched triton-ascend, line {record.line}, in {site}: {', '.join(record.patches)}"
    return Result(Condition.PATCHED, (first, _REVERTED_BY))


def revert(site: Path, dry_run: bool = False, lines: list[ReleaseLine] | None = None) -> Result:
    """Put the original files back into `site`; what an interrupted run has left, too."""
    folder = PatchFolder(site, lines)
    nothing = Result(Condition.NOT_PATCHED, (f"not patched: {site / 'triton'}", _NOTHING))
    if dry_run:
        _refuse_unfinished(folder)
    record = folder.record()
    if record is None and not folder.unfinished():
        found = recognise(site, folder.lines)
        if found.is_patched:
            raise PatchError(f"{site / 'triton'} was not patched by this tool: use patch -R, or reinstall it")
        if dry_run or not exists(folder.path):
            return nothing
    if dry_run and record is not None:
        now = {file.path: read_file(site, file.path) for file in record.files}
        first = f"would restore triton-ascend in {site}: {', '.join(now)}"
        return Result(Condition.PATCHED, (first, _DRY_RUN), _diff(now, folder.originals_of(record)))
    with folder.locked():
        if folder.recover():
            return Result(Condition.NOT_PATCHED, (f"undid an interrupted run in {site}", "all is as it was"))
        record = folder.record()
        if record is None:
            return nothing
        folder.revert(record)
    first = f"restored triton-ascend, line {record.line}, in {site}"
    return Result(Condition.NOT_PATCHED, (first, "every byte is as it was before the patches"))


def _refuse_unfinished(folder: PatchFolder) -> None:
    if folder.unfinished():
        raise PatchError(
            f"another run is at work in {folder.site}, or was interrupted: then use 'patch revert'"
        )


def _applied_and_untouched(folder: PatchFolder) -> bool:
    """Whether this tool has patched the site, and the files are as it left them.

    Asked from the record and not from the patches: those may be of another version than what was applied.
    """
    record = folder.record()
    return record is not None and all(
        sha256(read_file(folder.site, file.path)) == file.after for file in record.files
    )


def _patched(folder: PatchFolder, second: str) -> Result:
    record = folder.record()
    by = f"line {record.line}, {', '.join(record.patches)}" if record else "not by this tool"
    return Result(Condition.PATCHED, (f"patched: {folder.site / 'triton'} ({by})", second))


def _diff(old: dict[str, bytes], new: dict[str, bytes]) -> str:
    """A diff that `patch -p1` understands."""
    text = ""
    for path in old:
        before, after = (data[path].decode().splitlines(keepends=True) for data in (old, new))
        for line in difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"):
            text += line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
    return text
