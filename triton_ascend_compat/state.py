"""The state of the shim in this process, as one object for people and programs."""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass
from typing import Any

from triton_ascend_compat import generations, installer
from triton_ascend_compat.errors import CompatError
from triton_ascend_compat.options import installed_options

PLUGIN_VARIABLE = "TRITON_PLUGIN"


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

    def as_dict(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return dataclasses.asdict(self)


def current() -> Status:
    """The status of this process; never imports Triton and never touches a device."""
    shim = installer.active_shim()
    triton = sys.modules.get("triton")
    generation = backend = installed = None
    if triton is not None:
        try:
            generation = (shim.generation if shim is not None else generations.detect()).label
        except CompatError as error:
            generation = str(error)
        else:
            backend = generations.npu_backend_class()
            installed = installed_options(backend) if backend is not None else None
    return Status(
        active=shim is not None,
        needed=not installer.stood_down(),
        reason=_reason(triton_imported=triton is not None, backend_found=backend is not None),
        strict=shim is not None and shim.strict,
        triton=generations.installed_release() if triton is not None else None,
        triton_path=next(iter(getattr(triton, "__path__", ())), None),
        generation=generation,
        backend=f"{backend.__module__}.{backend.__qualname__}" if backend is not None else None,
        options=len(installed.types) if installed is not None else 0,
        retired=len(installed.retired) if installed is not None else 0,
        wrapped=installer.wrapped(),
        plugin=os.environ.get(PLUGIN_VARIABLE),
    )


def _reason(triton_imported: bool, backend_found: bool) -> str:
    reason = installer.reason()
    if installer.active_shim() is not None and not backend_found:
        return f"{reason}; dormant: no backend for target npu is installed"
    if not triton_imported:
        return f"{reason}; triton is not imported yet"
    return reason
