"""Changes several files of an installation all or nothing, and keeps what is needed to change them back.

Everything lives in one folder beside the `triton` package, not in it (Triton's cache key covers each module
of the package):

    .triton-ascend-compat/
        lock            held by the run at work (flock: a killed run lets go of it)
        originals/N     the files as they were: bytes, mode, owner and times
        staged/N        the new files, on their way
        journal.json    there while files are being replaced
        applied.json    there while the installation is patched; the same content

Two renames decide. `journal.json` appears once originals and new files are safe on the disk; from then on
the way back is to put the originals in place, which may be done again and again. It becomes `applied.json`
when every file is replaced. Taking the patches out renames it back first: killed anywhere, a run leaves
either nothing to do, or a journal, and a journal always means "put the originals in place".

What is read back from this folder is not trusted: a record may name only files that the patches change, with
the hashes that they were released with, so that nothing else is ever put in place; no symlink is followed.

A `PatchError` or `OSError` from here leaves every file of Triton as it was, an `UnfinishedError` does not.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triton_ascend_compat.patching.errors import PatchError, UnfinishedError
from triton_ascend_compat.patching.files import describe, exists, make_folder, read_file, sync, write_like
from triton_ascend_compat.patching.store import ReleaseLine, release_lines, sha256

FOLDER = ".triton-ascend-compat"


@dataclass(frozen=True)
class FileRecord:
    """One changed file: its path in the site, and its SHA-256 before and after."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Record:
    """What was applied: the release line, the names of the patches, the files in the order of replacement."""

    line: str
    patches: list[str]
    files: list[FileRecord]


class PatchFolder:
    """The folder in `site` that holds a transaction's files. `lines` say which files can be in one."""

    def __init__(self, site: Path, lines: Sequence[ReleaseLine] | None = None) -> None:
        self.site = site
        self.lines = release_lines() if lines is None else lines
        self.path = site / FOLDER
        self.lock = self.path / "lock"
        self.originals = self.path / "originals"
        self.staged = self.path / "staged"
        self.journal = self.path / "journal.json"
        self.applied = self.path / "applied.json"

    def unfinished(self) -> Record | None:
        """What a run was doing that was killed while it replaced files, or None."""
        return self._read_record(self.journal)

    def record(self) -> Record | None:
        """What was applied here by this tool, or None."""
        return self._read_record(self.applied)

    def originals_of(self, record: Record) -> dict[str, bytes]:
        """The content of each file of an applied `record` before it was patched."""
        self._check_restorable(record)
        return {file.path: self._original(number) for number, file in enumerate(record.files)}

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs out; leaves no folder behind where there is nothing to keep."""
        import fcntl  # triton-ascend runs on Linux only; reading the patches works anywhere

        with os.fdopen(self._open_lock(), "rb+", buffering=0) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = os.path.samestat(os.fstat(lock.fileno()), os.lstat(self.lock))
            except (BlockingIOError, FileNotFoundError):
                ours = False
            if not ours:
                raise PatchError(f"another run is patching {self.site} just now: try again when it has ended")
            try:
                yield
            finally:
                self._tidy()

    def apply(self, record: Record, new: dict[str, bytes]) -> None:
        """Replace each file of `record` by its content in `new`. Call it under `locked`."""
        self._prepare(record, new).rename(self.journal)
        try:
            sync(self.path)
            for number, file in enumerate(record.files):
                (self.staged / str(number)).replace(self.site / file.path)
                sync((self.site / file.path).parent)
            for cached in self._bytecode(record):
                cached.unlink(missing_ok=True)
            self.journal.rename(self.applied)
        except (OSError, PatchError):
            self.restore(record)
            raise
        # If the power fails before this is on the disk, the journal is back, which undoes all.
        with contextlib.suppress(OSError):
            sync(self.path)

    def revert(self, record: Record) -> None:
        """Put the originals of an applied `record` back in place. Call it under `locked`."""
        self._check_restorable(record)
        self.applied.rename(self.journal)
        self.restore(record)

    def recover(self) -> bool:
        """Undo what a killed run has left, if anything; whether there was. Call it under `locked`."""
        record = self.unfinished()
        if record is not None:
            self._check_restorable(record)
            self.restore(record)
        return record is not None

    def restore(self, record: Record) -> None:
        """Put the originals in place and forget the transaction; may be repeated after a kill."""
        try:
            sync(self.path)
            # Backwards, so that half-way each file finds what it imports from the others.
            for number, file in reversed(list(enumerate(record.files))):
                if sha256(read_file(self.site, file.path)) != file.before:
                    (self.originals / str(number)).replace(self.site / file.path)
                    sync((self.site / file.path).parent)
            for cached in self._bytecode(record):
                cached.unlink(missing_ok=True)
            # Without the journal the originals mean nothing any more.
            self.journal.unlink()
        except (OSError, PatchError) as error:
            remedy = f"{self.site} is half-way, 'patch revert' undoes that once the cause is gone"
            raise UnfinishedError(f"{describe(error)}; {remedy}") from error

    def _prepare(self, record: Record, new: dict[str, bytes]) -> Path:
        """Originals, new files and the journal's draft, which is returned, safe on the disk."""
        self._bytecode(record)
        self.applied.unlink(missing_ok=True)  # of an installation that has been replaced since
        for folder in (self.originals, self.staged):
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed before it had a journal
            make_folder(folder, self.path)
        for number, file in enumerate(record.files):
            target = self.site / file.path
            data = read_file(self.site, file.path)
            if sha256(data) != file.before:
                raise PatchError(f"{target} was changed a moment ago")
            write_like(target, self.originals / str(number), data)
            write_like(target, self.staged / str(number), new[file.path])
            # Python takes a cached .pyc whose source has the same size and the same mtime in seconds.
            before = target.stat().st_mtime_ns
            now = time.time_ns()
            if now // 10**9 == before // 10**9:
                now += 10**9
            os.utime(self.staged / str(number), ns=(now, now))
        for folder in (self.originals, self.staged):
            sync(folder)
        draft = self.path / "journal.draft"
        draft.unlink(missing_ok=True)
        write_like(target, draft, json.dumps(asdict(record), indent=1).encode())
        return draft

    def _check_restorable(self, record: Record) -> None:
        self._bytecode(record)
        for number, file in enumerate(record.files):
            now = sha256(read_file(self.site, file.path))
            if now == file.before:
                continue
            remedy = f"install triton-ascend again and remove {self.path}"
            if now != file.after:
                raise PatchError(f"{self.site / file.path} was changed after it was patched: {remedy}")
            if sha256(self._original(number)) != file.before:
                raise PatchError(f"{self.originals / str(number)} is damaged: {remedy}")

    def _original(self, number: int) -> bytes:
        return read_file(self.site, f"{FOLDER}/{self.originals.name}/{number}")

    def _read_record(self, path: Path) -> Record | None:
        if not exists(path):
            return None
        try:
            raw: Any = json.loads(read_file(self.site, f"{FOLDER}/{path.name}"))
            record = Record(raw["line"], raw["patches"], [FileRecord(**entry) for entry in raw["files"]])
            trusted = asdict(record) == raw and self._is_ours(record)
        except (ValueError, LookupError, TypeError, RecursionError):
            trusted = False
        if not trusted:
            raise PatchError(f"{path} is not as this tool writes it: install triton-ascend again, remove it")
        return record

    def _is_ours(self, record: Record) -> bool:
        """Whether it names what is to be printed plainly, and files that the patches change, once each."""
        released = [(p, h[0]) for line in self.lines for p in line.paths for h in line.histories(p)]
        return (
            all(re.fullmatch(r"[\w.-]{1,99}", name, re.ASCII) for name in [record.line, *record.patches])
            and all((file.path, file.before) in released for file in record.files)
            and all(re.fullmatch("[0-9a-f]{64}", file.after) for file in record.files)
            and 0 < len(record.files) == len({file.path for file in record.files})
        )

    def _open_lock(self) -> int:
        for _ in range(100):
            try:
                with contextlib.suppress(FileExistsError):
                    make_folder(self.path, self.site)
                if self.path.is_symlink():
                    raise PatchError(f"{self.path} is a symlink: remove it")
                return os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except FileNotFoundError:
                continue  # a run that ended has removed the folder in between
            except OSError:
                with contextlib.suppress(OSError):
                    self.path.rmdir()
                raise
        raise PatchError(f"{self.path} comes and goes: other runs are patching this site")

    def _tidy(self) -> None:
        """Remove what no record needs; the whole folder where there is none."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.staged, ignore_errors=True)
            (self.path / "journal.draft").unlink(missing_ok=True)
            if not exists(self.applied) and not exists(self.journal):
                shutil.rmtree(self.originals, ignore_errors=True)
                self.lock.unlink()
                self.path.rmdir()

    def _bytecode(self, record: Record) -> list[Path]:
        """The caches of the changed files: those that Python never checks against the source as well."""
        found: list[Path] = []
        for file in record.files:
            source = self.site / file.path
            folder = source.parent / "__pycache__"
            if folder.is_symlink():
                raise PatchError(f"{folder} is a symlink: remove it, it would keep outdated bytecode")
            found += folder.glob(f"{source.stem}.*.pyc")
        return found
