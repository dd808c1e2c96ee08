"""What `status` can say about the start-up path of this process; not imported by that path itself."""

from __future__ import annotations

import os
import site
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from triton_ascend_compat import _import_hook, _startup

STARTUP_FILE = f"{_startup.PLUGIN}.pth"


class Phase(str, Enum):
    """How far the start-up path of this process got."""

    NOT_NAMED = "not named"
    ARMED = "armed"
    FIRED = "fired"
    FAILED = "failed"
    NO_SITE = "site not processed"
    NO_STARTUP_FILE = "no start-up file"
    TOO_LATE = "set too late"


@dataclass(frozen=True)
class StartupState:
    """The facts behind `phase`, and `reason`: the same in one line for a person."""

    phase: Phase
    reason: str
    plugin: str | None
    """TRITON_PLUGIN as it stands now, or None."""
    runs: int
    """How often the start-up line ran here; more than once is normal."""
    startup_file: str | None
    """The start-up file that a fresh interpreter here would read, or None."""


def find_startup_file() -> str | None:
    """The start-up file in this interpreter's site directories (`site` reads none in PYTHONPATH)."""
    directories = list(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        directories.append(site.getusersitepackages())
    for directory in directories:
        path = Path(directory, STARTUP_FILE)
        if path.is_file():
            return str(path)
    return None


def read() -> StartupState:
    """The state of this process, now."""
    plugin = os.environ.get(_startup.VARIABLE)
    startup_file = find_startup_file()
    phase, reason = _judge(plugin, startup_file)
    return StartupState(phase, reason, plugin, _startup.runs, startup_file)


def _judge(plugin: str | None, startup_file: str | None) -> tuple[Phase, str]:
    variable = _startup.VARIABLE
    hook = _import_hook.hooks.get("triton")
    if hook is not None and hook.error is not None:
        return Phase.FAILED, f"the installation failed: {type(hook.error).__name__}: {hook.error}"
    if hook is not None and hook.fired:
        return Phase.FIRED, "triton was imported and the installation ran right after"
    if hook is not None:
        return Phase.ARMED, "the shim will be installed as soon as triton has been imported"
    if not _startup.is_named(plugin or ""):
        if plugin:
            return Phase.NOT_NAMED, f"{variable}={plugin} does not name {_startup.PLUGIN}"
        return Phase.NOT_NAMED, f"{variable} is not set"
    if sys.flags.no_site:
        return Phase.NO_SITE, "python -S reads no start-up files: use `python -S -m triton_ascend_compat run`"
    if startup_file is None:
        return Phase.NO_STARTUP_FILE, (
            f"no {STARTUP_FILE} in the site directories of {sys.executable}: "
            "use `python -m triton_ascend_compat run`, or enable()"
        )
    return Phase.TOO_LATE, (
        f"{variable} was set after the interpreter started: it holds for child processes; use enable() here"
    )
