"""Options of other Triton backends, which kernels written for those pass (`foreign.json`)."""

from __future__ import annotations

import functools
import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The size in bytes above which a user's file is not read.
_LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class ForeignOption:
    """An option of another Triton backend: whose it is, and the value that asks for nothing (None where no
    value is known to)."""

    owner: str
    off: Any = None


def foreign_options() -> Mapping[str, ForeignOption]:
    """Options of other Triton backends, by name: those in `foreign.json`, and those in the file that
    TRITON_ASCEND_COMPAT_FOREIGN names, a JSON object of names and whose they are."""
    from triton_ascend_compat import settings

    return _foreign_options(settings.foreign_file())


@functools.cache
def _foreign_options(users_file: str) -> Mapping[str, ForeignOption]:
    data = json.loads(Path(__file__).with_name("foreign.json").read_text(encoding="utf-8"))
    off = data["off"]["values"]
    options = {
        name: ForeignOption(owner, off.get(name)) for owner, names in data["owners"].items() for name in names
    }
    if users_file:
        try:
            options.update(
                {name: ForeignOption(owner) for name, owner in _read_users_file(users_file).items()}
            )
        except (OSError, ValueError, RecursionError) as error:
            from triton_ascend_compat import settings

            settings.logger().warning(
                "%s=%s is not used: %s; expected a JSON object like %s",
                settings.FOREIGN_VARIABLE,
                users_file,
                str(error).splitlines()[0],
                '{"some_option": "whose it is"}',
            )
    return options


def _read_users_file(path: str) -> dict[str, str]:
    found = Path(path).stat()  # before it is opened: a pipe would wait for a writer
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    if found.st_size > _LARGEST_FILE:
        raise ValueError(f"it has {found.st_size} bytes, more than {_LARGEST_FILE}")
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"it holds a {type(data).__name__}")  # noqa: TRY004 - a wrong file, not a wrong call
    wrong = [name for name, owner in data.items() if not isinstance(owner, str)]
    if wrong:
        raise ValueError(f"the owner of {wrong[0]!r} is no string")
    return data
