"""Failed compiles, remembered in the offline cache, so that a second run does not repeat them.

Triton caches kernels that compiled. A check over many configs spends most of a second run on those that do
not, and what a compiler refused once, the same compiler refuses again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from triton_ascend_compat.offline.records import CRASH

_FILE = "ascend-offline-failure.json"


class Failure(NamedTuple):
    """What an external compiler ended with: `tool` is which program, with its size and time of change."""

    stage: str
    tool: list[Any]
    returncode: int
    stderr: str
    notes: list[str]

    def repeat(self) -> NoReturn:
        """Raise what the compiler's failure looked like."""
        raise subprocess.CalledProcessError(self.returncode, self.tool, b"", self.stderr.encode())


def remember(kernel_hash: str, stage: str, error: BaseException, notes: list[str]) -> None:
    """Keep `error` of `stage`, if an external compiler ended with an error of its own, or crashed: not if it
    was killed, and not if it could not be run."""
    if not isinstance(error, subprocess.CalledProcessError) or isinstance(error.cmd, str):
        return
    text = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else str(error.stderr)
    tool = _identity(str(error.cmd[0]))
    if tool is None or (error.returncode < 0 and CRASH not in text):
        return
    failure = Failure(stage, tool, error.returncode, text, notes)
    _manager(kernel_hash).put(json.dumps(failure), _FILE, binary=False)


def recall(kernel_hash: str) -> Failure | None:
    """The failure remembered for the kernel with this hash; None where the cache is not to be used, or the
    program that failed is another one by now."""
    if os.environ.get("TRITON_ALWAYS_COMPILE", "0") == "1":
        return None
    path = _manager(kernel_hash).get_file(_FILE)
    try:
        failure = Failure(*json.loads(Path(path).read_text())) if path is not None else None
        return failure if failure is not None and _identity(failure.tool[0]) == failure.tool else None
    except (OSError, ValueError, TypeError):
        return None


def text_of_stage(kernel_hash: str, file_name: str) -> str | None:
    """What an earlier run left of a stage that ended well before the failing one."""
    path = _manager(kernel_hash).get_file(file_name)
    return Path(path).read_text() if path is not None else None


def _identity(program: str) -> list[Any] | None:
    found = shutil.which(program)
    if found is None:
        return None
    status = Path(found).stat()
    return [found, status.st_size, status.st_mtime_ns]


def _manager(kernel_hash: str) -> Any:
    from triton.runtime.cache import get_cache_manager

    return get_cache_manager(kernel_hash)
