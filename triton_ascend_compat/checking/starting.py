"""Whether a program that a target starts is a Python process in which nothing can be recorded: it looks at no
PYTHONPATH, or at another one. What a script of the shell does inside cannot be told.

As in `child`, nothing is imported that a script may have a module of its own for."""

from __future__ import annotations

import os
import re

from triton_ascend_compat.checking import CHILDREN, VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_PYTHON = re.compile(r"(.*/)?python[\d.]*")
_SHELL = re.compile(r"(.*/)?(ba|da|z|k)?sh")
_ENV = re.compile(r"(.*/)?env")

#: What separates the commands of a line of the shell, and a word of one.
_SEPARATOR = re.compile(r"[;&|()\n]+")
_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")


def unrecorded(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The command line of such a process; None for any other.

    Args:
        event: what Python's audit hooks call it: `subprocess.Popen`, `os.posix_spawn`, `os.exec` or
            `os.system`.
        arguments: the event's.
    """
    if event == "os.system":
        words, env = ["sh", "-c", os.fsdecode(arguments[0])], None
    else:
        given = [arguments[1]] if isinstance(arguments[1], (str, bytes)) else list(arguments[1])
        words, env = [os.fsdecode(word) for word in (arguments[0] or given[0], *given[1:])], arguments[-1]
    commands = [words]
    if _SHELL.fullmatch(words[0]) and len(words) > 2 and words[1].endswith("c"):
        words = words[2:]
        commands = [_WORD.findall(command) for command in _SEPARATOR.split(words[0])]
    inherits = _inherits(os.environ if env is None else env)
    return " ".join(words) if any(_leaves(command, inherits) for command in commands) else None


def _leaves(words: Sequence[str], inherits: bool) -> bool:
    """Whether a command starts Python without what the recording needs."""
    at = next((at for at, word in enumerate(words) if _PYTHON.fullmatch(word.strip("'\""))), None)
    if at is None:
        return False
    before, kept = words[:at], ("$PYTHONPATH", "${PYTHONPATH", CHILDREN)
    changes = any("PYTHONPATH" in word and not any(each in word for each in kept) for word in before)
    empties = any(map(_ENV.fullmatch, before)) and not {"-", "-i", "--ignore-environment"}.isdisjoint(before)
    return not inherits or changes or empties or _isolated(words[at + 1 :])


def _isolated(words: Sequence[str]) -> bool:
    """Whether Python is told to look at no PYTHONPATH, or to import no `site`: -I, -E, -S, also as in -IB."""
    for word in words:
        if not word.startswith("-") or word[1:2] in ("-", "c", "m", ""):
            return False
        if not set("IES").isdisjoint(word):
            return True
    return False


def _inherits(env: Mapping[Any, Any]) -> bool:
    names = {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}
    return VARIABLE in names and CHILDREN in names.get("PYTHONPATH", "").split(os.pathsep)
