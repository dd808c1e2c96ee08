"""Failed compiles, remembered in the offline cache, so that a second run does not repeat them.

Triton caches kernels that compiled. A check over many configs spends most of a second run on those that do
not, and what a compiler refused once, it refuses again.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from triton_ascend_compat.offline.records import CRASH

_FILE = "ascend-offline-failure.json"


def remember(kernel_hash: str, stage: str, error: BaseException, notes: list[str]) -> None:
    """Keep `error` of `stage`, if an external compiler ended with an error of its own, or crashed: not if it
    was killed, and not if it could not be run."""
    if not isinstance(error, subprocess.CalledProcessError):
        return
    text = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else str(error.stderr)
    if error.returncode < 0 and CRASH not in text:
        return
    data = {"stage": stage, "returncode": error.returncode, "stderr": text, "notes": notes}
    _manager(kernel_hash).put(json.dumps(data), _FILE, binary=False)


def recall(kernel_hash: str) -> dict[str, Any] | None:
    """The failure remembered for the kernel with this hash; none where the cache is not to be used."""
    if os.environ.get("TRITON_ALWAYS_COMPILE", "0") == "1":
        return None
    path = _manager(kernel_hash).get_file(_FILE)
    if path is None:
        return None
    try:
        data: dict[str, Any] = json.loads(Path(path).read_text())
    except (OSError, ValueError):
        return None
    return data


def text_of_stage(kernel_hash: str, file_name: str) -> str | None:
    """What an earlier run left of a stage that ended well before the failing one."""
    path = _manager(kernel_hash).get_file(file_name)
    return Path(path).read_text() if path is not None else None


def repeat(failure: dict[str, Any]) -> None:
    """Raise what the compiler's failure looked like."""
    raise subprocess.CalledProcessError(
        failure["returncode"], ["(remembered)"], output=b"", stderr=failure["stderr"].encode()
    )


def _manager(kernel_hash: str) -> Any:
    from triton.runtime.cache import get_cache_manager

    return get_cache_manager(kernel_hash)
