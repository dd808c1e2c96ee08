"""Reads and writes single files of an installation, so that nothing outside it is ever reached."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from triton_ascend_compat.patching.errors import PatchError


def read_file(site: Path, path: str) -> bytes:
    """The content of `site/path`.

    Raises:
        PatchError: it is not a regular file, or is reached through a symlink below `site`. A symlink leads to
            a file that belongs to something else, or would be replaced by a file.
        OSError: it is missing, or cannot be read.
    """
    place = site
    for part in Path(path).parts:
        place = place / part
        mode = os.lstat(place).st_mode
        if stat.S_ISLNK(mode):
            target = os.path.realpath(place)
            raise PatchError(f"{place} is a symlink (to {target}): patch the installation it leads to")
    if not stat.S_ISREG(mode):
        raise PatchError(f"{place} is not a regular file")
    return place.read_bytes()


def exists(path: Path) -> bool:
    """Whether anything has this name, a link that leads nowhere too. OSError where that cannot be told."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def make_folder(path: Path, model: Path) -> None:
    """Make a folder that those may use who may use the folder `model`, whatever the umask is."""
    path.mkdir()
    shutil.copymode(model, path)
    _give_to_owner_of(model, path)


def write_like(model: Path, path: Path, data: bytes) -> None:
    """Write a new file that has the mode, owner and times of `model`, and see it safe on the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    shutil.copystat(model, path)
    _give_to_owner_of(model, path)


def sync(folder: Path) -> None:
    """Make the renames in `folder` survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def describe(error: Exception) -> str:
    """One line: what is wrong, or what the system said and of which file."""
    if not isinstance(error, OSError):
        return str(error)
    path = error.filename2 or error.filename
    return f"{path}: {error.strerror}" if path else str(error.strerror or error)


def _give_to_owner_of(model: Path, path: Path) -> None:
    owner = model.stat()
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(path, owner.st_uid, owner.st_gid)
