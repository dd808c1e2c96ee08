"""The state of the shim in this process, as one object for people and programs."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from typing import Any

from triton_ascend_compat import generations, installer
from triton_ascend_compat.errors import CompatError
from triton_ascend_compat.fixes import DELIVERED_BY_TRITON, FIXES
from triton_ascend_compat.options import installed_options
from triton_ascend_compat.shim import CONSTANTS
from triton_ascend_compat.startup import progress
from triton_ascend_compat.startup.progress import StartupState


@dataclass(frozen=True)
class FixStatus:
    """One fix and whether it acts.

    Attributes:
        name: by which TRITON_ASCEND_COMPAT_DISABLE and `enable(without=…)` switch it off.
        on: whether it acts.
        off_because: why it does not; None where it does.
        why: what goes wrong without it.
        how: what it does about that.
        upstream: where the cause stands.
        until: when it can go.
    """

    name: str
    on: bool
    off_because: str | None
    why: str
    how: str
    upstream: str
    until: str


@dataclass(frozen=True)
class Status:
    """What the shim does in this process, and why.

    Attributes:
        active: whether leaked options are being delivered by the shim.
        needed: False where the installed Triton delivers them itself, so that the shim stands down.
        reason: one sentence that says why it is active or not.
        strict: whether an option that is absent here is an error.
        triton: distribution and version of the imported Triton; None while it is not imported.
        triton_path: the folder of the imported `triton` package.
        generation: the shape of its front end, or what was expected of it instead.
        backend: the class that compiles for target npu; None where there is none.
        options: how many compile options that backend accepts from a caller.
        retired: how many names it accepts and drops.
        wrapped: the attributes that are wrapped.
        plugin: the value of TRITON_PLUGIN; None where it is unset.
        startup: how far the start-up path of this process got, in one sentence.
        fixes: the fixes, and whether each acts.
    """

    active: bool
    needed: bool
    reason: str
    strict: bool
    triton: str | None
    triton_path: str | None
    generation: str | None
    backend: str | None
    options: int
    retired: int
    wrapped: tuple[str, ...]
    plugin: str | None
    startup: str
    fixes: tuple[FixStatus, ...]

    def as_dict(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return dataclasses.asdict(self)


def current() -> Status:
    """The status of this process; never imports Triton and never touches a device."""
    shim = installer.active_shim()
    triton = sys.modules.get("triton")
    shape = backend = installed = None
    fixed = installer.stood_down()
    if triton is not None:
        try:
            generation = shim.generation if shim is not None else generations.detect()
        except CompatError as error:
            shape = str(error)
        else:
            shape = generation.label
            backend = generations.npu_backend_class()
            installed = installed_options(backend) if backend is not None else None
            fixed = fixed or (shim is None and generations.delivers_leaked_options(generation))
    startup = progress.read()
    return Status(
        active=shim is not None and CONSTANTS in shim.fixes,
        needed=not fixed,
        reason=_reason(startup, fixed, backend_found=backend is not None),
        strict=shim is not None and shim.strict,
        triton=generations.installed_release() if triton is not None else None,
        triton_path=next(iter(getattr(triton, "__path__", ())), None),
        generation=shape,
        backend=f"{backend.__module__}.{backend.__qualname__}" if backend is not None else None,
        options=len(installed.types) if installed is not None else 0,
        retired=len(installed.retired) if installed is not None else 0,
        wrapped=installer.wrapped(),
        plugin=startup.plugin,
        startup=startup.reason,
        fixes=_fixes(),
    )


def _fixes() -> tuple[FixStatus, ...]:
    rows = []
    for fix in FIXES:
        why_off = installer.why_off(fix.name)
        rows.append(FixStatus(fix.name, why_off is None, why_off, fix.why, fix.how, fix.upstream, fix.until))
    return tuple(rows)


def _reason(startup: StartupState, fixed: bool, backend_found: bool) -> str:
    """Why it is on or off: what the installer says, or, where nothing reached it, the start-up path."""
    if installer.active_shim() is not None and not backend_found:
        return f"{installer.reason()}; dormant: no backend for target npu is installed"
    if installer.never_asked():
        return f"not needed: {DELIVERED_BY_TRITON}" if fixed else startup.reason
    return installer.reason()
