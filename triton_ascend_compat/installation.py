"""Whose files the installed `triton` package consists of: told by what they are, not by a name in a list.

triton and triton-ascend both bring a package `triton`. With triton-ascend 3.2.0 the one that comes last
breaks the other; from 3.2.1 on triton-ascend declares upstream triton and overwrites its folder, which is
right.
"""

from __future__ import annotations

import functools
import importlib.metadata
from pathlib import Path

_ASCEND, _UPSTREAM = "triton-ascend", "triton"

REPAIR = "uninstall both, then install triton-ascend again, last"


@functools.cache
def whose_files() -> str | None:
    """A sentence about the files of `triton` where both distributions are installed, else None."""
    try:
        ascend, upstream = _python_files(_ASCEND), _python_files(_UPSTREAM)
    except Exception:  # records of installations can be damaged in every way
        return None
    if not ascend or not upstream:
        return None
    both = " and ".join(f"{name} {importlib.metadata.version(name)}" for name in (_ASCEND, _UPSTREAM))
    lost = [
        path
        for path, size in ascend.items()
        if _size(path) != size and _size(path) in (None, upstream.get(path))
    ]
    if not lost:
        return f"{both} are both installed; the files are those of {_ASCEND}, as they should be"
    return (
        f"{both} are both installed, and {len(lost)} of {len(ascend)} files of {_ASCEND} are overwritten "
        f"or gone ({lost[0].name}, …): {REPAIR}"
    )


def _python_files(distribution: str) -> dict[Path, int]:
    """The Python files that a distribution has put into `triton`, with their sizes in bytes."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    return {
        Path(str(file.locate())): file.size
        for file in files
        if file.parts[0] == "triton" and file.suffix == ".py" and file.size is not None
    }


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def import_failure(error: BaseException) -> str:
    """Why `import triton` failed, in one line, with what to do about it where that is known."""
    told = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] not in ("triton", ""):
        return f"{told}: Triton is installed and needs {error.name}: pip install {error.name}"
    files = whose_files()
    return told if files is None or REPAIR not in files else f"{told} ({files})"
