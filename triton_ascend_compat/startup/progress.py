"""How far the start-up path of this process got, for `status`; not imported by that path itself."""

from __future__ import annotations

import os
import site
import sys
from dataclasses import dataclass
from enum import Enum

from triton_ascend_compat import startup
from triton_ascend_compat.startup import import_hook

STARTUP_FILE = f"{startup.PLUGIN}.pth"
_START_MODULE = "_triton_ascend_compat_start"


class Phase(str, Enum):
    """How far the start-up path of this process got."""

    NOT_NAMED = "not named"
    ARMED = "armed"
    IMPORTING = "importing"
    FIRED = "fired"
    FAILED = "failed"
    DISARMED = "disarmed"
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
    paths = [os.path.join(directory, STARTUP_FILE) for directory in directories]
    return next(filter(os.path.isfile, paths), None)


def read() -> StartupState:
    """The state of this process, now."""
    plugin = os.environ.get(startup.VARIABLE)
    startup_file = find_startup_file()
    phase, reason = _of_the_hook() or _without_hook(plugin, startup_file)
    return StartupState(phase, reason, plugin, startup.runs, startup_file)


def _of_the_hook() -> tuple[Phase, str] | None:
    hook = next((hook for hook in tuple(import_hook.hooks) if hook.callback is startup.install), None)
    if hook is None:
        return None
    if import_hook.is_importing(hook.name):
        return Phase.IMPORTING, "triton is being imported; the shim will be installed right after"
    if not hook.fired:
        return Phase.ARMED, "the shim will be installed as soon as triton has been imported"
    if hook.error is not None:
        return Phase.FAILED, f"the installation failed: {type(hook.error).__name__}: {hook.error}"
    return Phase.FIRED, "triton was imported and the installation ran right after"


def _without_hook(plugin: str | None, startup_file: str | None) -> tuple[Phase, str]:
    variable = startup.VARIABLE
    if not startup.is_named(plugin or ""):
        told = f"{variable}={plugin} does not name {startup.PLUGIN}" if plugin else f"{variable} is not set"
        return Phase.NOT_NAMED, told
    if startup.runs:
        return Phase.DISARMED, f"{variable} had it switched on, and disable() has switched it off"
    if sys.flags.no_site:
        return Phase.NO_SITE, "python -S reads no start-up files: use `python -S -m triton_ascend_compat run`"
    if startup_file is None:
        return Phase.NO_STARTUP_FILE, (
            f"no {STARTUP_FILE} in the site directories of {sys.executable}: "
            "use `python -m triton_ascend_compat run`, or enable()"
        )
    if _START_MODULE in sys.modules:
        failure = getattr(sys.modules[_START_MODULE], "failure", "")
        return Phase.FAILED, f"the start-up of this process failed{failure and f': {failure}'}; use enable()"
    return Phase.TOO_LATE, (
        f"{variable} was set after the interpreter started: it holds where a new one starts (subprocess, "
        "spawn), not here and not in forked children; use enable()"
    )
