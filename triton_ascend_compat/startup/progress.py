"""How far the start-up path of this process got, for `status`; not imported by that path itself."""

from __future__ import annotations

import os
import site
import sys
from typing import Literal, NamedTuple

from triton_ascend_compat import startup
from triton_ascend_compat.startup import import_hook

STARTUP_FILE = f"{startup.PLUGIN}.pth"
_START_MODULE = "_triton_ascend_compat_start"

Phase = Literal[
    "not named", "armed", "importing", "fired", "failed", "disarmed", "no site", "no file", "too late"
]


class StartupState(NamedTuple):
    """How far the start-up path of this process got, and the same in one line for a person."""

    phase: Phase
    reason: str


def find_startup_file() -> str | None:
    """The start-up file in this interpreter's site directories (`site` reads none in PYTHONPATH)."""
    directories = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return next(filter(os.path.isfile, (os.path.join(d, STARTUP_FILE) for d in directories)), None)


def read() -> StartupState:
    """The state of this process, now."""
    hook = next((hook for hook in import_hook.hooks("triton") if hook.callback is startup.install), None)
    return StartupState(*(_of_hook(hook) if hook is not None else _without_hook()))


def _of_hook(hook: import_hook.Hook) -> tuple[Phase, str]:
    if import_hook.is_importing(hook.name):
        return "importing", "triton is being imported; the shim will be installed right after"
    if not hook.fired:
        return "armed", "the shim will be installed as soon as triton has been imported"
    if hook.error:
        return "failed", f"the installation failed: {hook.error}"
    return "fired", "triton was imported and the installation ran right after"


def _without_hook() -> tuple[Phase, str]:
    variable = startup.VARIABLE
    plugin = os.environ.get(variable, "")
    if not startup.is_named(plugin):
        told = f"{variable}={plugin} does not name {startup.PLUGIN}" if plugin else f"{variable} is not set"
        return "not named", told
    if startup.runs:
        return "disarmed", f"{variable} had it switched on, and disable() switched it off"
    if sys.flags.no_site:
        return "no site", "python -S reads no start-up files: use `python -S -m triton_ascend_compat run`"
    if find_startup_file() is None:
        where = f"no {STARTUP_FILE} in the site directories of {sys.executable}"
        return "no file", f"{where}: use `python -m triton_ascend_compat run`, or enable()"
    if _START_MODULE in sys.modules:
        failure = getattr(sys.modules[_START_MODULE], "failure", "")
        return "failed", f"the start-up of this process failed: {failure}; use enable()"
    return "too late", (
        f"{variable} was set after the interpreter started: it holds where a new one starts (subprocess, "
        "spawn), not here and not in forked children; use enable()"
    )
