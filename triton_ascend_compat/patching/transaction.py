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
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.site import read_file
from triton_ascend_compat.patching.store import sha256

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
    patches: tuple[str, ...]
    files: tuple[FileRecord, ...]


class PatchFolder:
    """The folder in `site` that holds a transaction's files."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.path = site / FOLDER
        self.lock = self.path / "lock"
        self.originals = self.path / "originals"
        self.staged = self.path / "staged"
        self.journal = self.path / "journal.json"
        self.applied = self.path / "applied.json"

    @property
    def interrupted(self) -> bool:
        """Whether a run was killed while it replaced files."""
        return self.journal.is_file()

    def record(self) -> Record | None:
        """What was applied here by this tool, or None."""
        return _read_record(self.applied) if self.applied.is_file() else None

    def read_originals(self, record: Record) -> dict[str, bytes]:
        """The content of each file of an applied `record` before it was patched."""
        self._check_restorable(record)
        return {file.path: (self.originals / str(i)).read_bytes() for i, file in enumerate(record.files)}

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs out; leaves no folder behind where there is nothing to keep.

        Raises:
            PatchError: another run is at work here, or the site cannot be written to.
        """
        import fcntl  # triton-ascend runs on Linux only; reading the patches works anywhere

        if self.path.is_symlink():
            raise PatchError(f"{self.path} is a symlink: remove it")
        descriptor = self._open_lock()
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = os.path.samestat(os.fstat(descriptor), self.lock.stat())
            except (BlockingIOError, FileNotFoundError):
                ours = False
            if not ours:
                raise PatchError(f"another run is patching {self.site} just now: try again when it has ended")
            try:
                yield
            finally:
                self._tidy()
        finally:
            os.close(descriptor)

    def apply(self, record: Record, new: dict[str, bytes]) -> None:
        """Replace each file of `record` by its content in `new`. Call it under `locked`.

        Raises:
            PatchError: it could not be done; every file is as it was.
        """
        try:
            self._prepare(record, new)
            self._replace_all(record)
            self.journal.rename(self.applied)
            _sync(self.path)
        except OSError as error:
            if self.interrupted:
                self.restore(_read_record(self.journal))
            raise PatchError(f"{_describe(error)}: nothing was changed") from error

    def revert(self, record: Record) -> None:
        """Put the originals of an applied `record` back in place. Call it under `locked`.

        Raises:
            PatchError: a file is neither as it was nor as it was left, or an original is damaged; nothing
                was changed. Or the files cannot be replaced: a next run goes on.
        """
        self._check_restorable(record)
        try:
            self.applied.rename(self.journal)
            _sync(self.path)
        except OSError as error:
            raise PatchError(f"{_describe(error)}: nothing was changed") from error
        self.restore(record)

    def recover(self) -> bool:
        """Undo what a killed run has left, if anything; whether there was. Call it under `locked`."""
        if not self.interrupted:
            return False
        record = _read_record(self.journal)
        self._check_restorable(record)
        self.restore(record)
        return True

    def restore(self, record: Record) -> None:
        """Put the originals in place and forget the transaction; may be repeated after a kill."""
        try:
            # Backwards, so that half-way each file finds what it imports from the others.
            for number, file in reversed(list(enumerate(record.files))):
                if sha256(read_file(self.site, file.path)) != file.before:
                    (self.originals / str(number)).replace(self.site / file.path)
                    _sync((self.site / file.path).parent)
            _drop_bytecode(self.site, record)
            # Without the journal the originals mean nothing any more.
            self.journal.unlink()
            _sync(self.path)
        except OSError as error:
            raise PatchError(f"{_describe(error)}: the files are partly restored, run this again") from error

    def _prepare(self, record: Record, new: dict[str, bytes]) -> None:
        self.applied.unlink(missing_ok=True)  # of an installation that has been replaced since
        for folder in (self.originals, self.staged):
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed before it had a journal
            folder.mkdir()
        for number, file in enumerate(record.files):
            target = self.site / file.path
            data = read_file(self.site, file.path)
            if sha256(data) != file.before:
                raise PatchError(f"{target} was changed a moment ago: nothing was changed")
            _write_like(target, self.originals / str(number), data)
            _write_like(target, self.staged / str(number), new[file.path])
            # Python takes a cached .pyc whose source has the same size and the same mtime in seconds.
            before = target.stat().st_mtime_ns
            now = time.time_ns()
            if now // 10**9 == before // 10**9:
                now += 10**9
            os.utime(self.staged / str(number), ns=(now, now))
        for folder in (self.originals, self.staged):
            _sync(folder)
        draft = self.path / "journal.draft"
        draft.unlink(missing_ok=True)
        _write(draft, json.dumps(asdict(record), indent=1).encode())
        draft.rename(self.journal)
        _sync(self.path)

    def _replace_all(self, record: Record) -> None:
        for number, file in enumerate(record.files):
            (self.staged / str(number)).replace(self.site / file.path)
            _sync((self.site / file.path).parent)
        _drop_bytecode(self.site, record)

    def _check_restorable(self, record: Record) -> None:
        for number, file in enumerate(record.files):
            now = sha256(read_file(self.site, file.path))
            if now == file.before:
                continue
            if now != file.after:
                raise PatchError(
                    f"{self.site / file.path} was changed after it was patched: nothing was changed; install "
                    f"triton-ascend again and remove {self.path}"
                )
            original = self.originals / str(number)
            if not original.is_file() or sha256(original.read_bytes()) != file.before:
                raise PatchError(f"{original} is missing or damaged: install triton-ascend again")

    def _open_lock(self) -> int:
        try:
            # A run that ends may remove the folder between the two calls.
            for _ in range(100):
                self.path.mkdir(exist_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    return os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            with contextlib.suppress(OSError):
                self.path.rmdir()
            raise PatchError(f"{_describe(error)}: nothing was changed") from error
        raise PatchError(f"another run is patching {self.site} just now: try again when it has ended")

    def _tidy(self) -> None:
        """Remove what no record needs; the whole folder where there is none."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.staged, ignore_errors=True)
            (self.path / "journal.draft").unlink(missing_ok=True)
            if not self.applied.is_file() and not self.interrupted:
                shutil.rmtree(self.originals, ignore_errors=True)
                self.lock.unlink()
                self.path.rmdir()


def _write_like(model: Path, path: Path, data: bytes) -> None:
    """Write a file that has the mode, owner and times of `model`."""
    _write(path, data)
    shutil.copystat(model, path)
    owner = model.stat()
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(path, owner.st_uid, owner.st_gid)


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make the renames in `folder` survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop_bytecode(site: Path, record: Record) -> None:
    """Remove the caches of the changed files: those that Python never checks against the source as well."""
    for file in record.files:
        source = site / file.path
        for cached in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
            cached.unlink(missing_ok=True)


def _read_record(path: Path) -> Record:
    try:
        raw: dict[str, Any] = json.loads(path.read_bytes())
        files = tuple(FileRecord(**entry) for entry in raw["files"])
        return Record(raw["line"], tuple(raw["patches"]), files)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise PatchError(f"{path} cannot be read ({error}): reinstall triton-ascend and remove it") from None


def _describe(error: OSError) -> str:
    return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
