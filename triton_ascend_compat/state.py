"""The state of the shim in this process, read from the world, as one object for people and programs."""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass
from typing import Any

from triton_ascend_compat import generations, installation, installer, shim
from triton_ascend_compat.fixes import DATA, FIXES
from triton_ascend_compat.startup import VARIABLE, progress


@dataclass(frozen=True)
class FixStatus:
    """One fix: its `name`, whether it is `on`, why not, and the texts of its module (`fixes/NAME.py`)."""

    name: str
    on: bool
    off_because: str | None
    why: str
    how: str
    upstream: str
    until: str


@dataclass(frozen=True)
class Status:
    """What a misplaced compile option meets in this process, and why; `str()` of it is for people.

    Attributes:
        active: whether a leaked option would be delivered now.
        by: by whom: `triton_ascend_compat` or `Triton itself`; None where it would not.
        needed: False where the imported Triton delivers leaked options itself, so that the shim stands down.
        reason: one sentence that says why it is active or not, and what to do.
        strict: whether an option that is absent here is an error.
        triton: distribution and version of the imported Triton; None while it is not imported.
        triton_path: the folder of the imported `triton` package.
        files: whose files these are, where several distributions brought some.
        generation: the shape of its front end, or what was expected of it instead.
        backend: the class that compiles for target npu; None where there is none.
        options, retired: how many compile options it accepts from a caller; how many names it drops.
        wrapped: the attributes that are wrapped.
        plugin: the value of TRITON_PLUGIN; None where it is unset.
        startup: how far the start-up path of this process got, in one sentence.
        fixes: the fixes, and whether each acts.
        data: the data that decisions use (`renames`, `foreign`) -> whether they are on.
    """

    active: bool
    by: str | None
    needed: bool
    reason: str
    strict: bool
    triton: str | None
    triton_path: str | None
    files: str | None
    generation: str | None
    backend: str | None
    options: int
    retired: int
    wrapped: tuple[str, ...]
    plugin: str | None
    startup: str
    fixes: tuple[FixStatus, ...]
    data: dict[str, bool]

    def as_dict(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        fixes = [fix.name if fix.on else f"{fix.name} (off: {fix.off_because})" for fix in self.fixes]
        rows = {
            "active": f"yes, by {self.by}" if self.active else "no",
            "why": self.reason,
            "Triton": self.triton,
            "found in": self.triton_path,
            "files": self.files,
            "generation": self.generation,
            "npu backend": self.backend,
            "compile options": f"{self.options} accepted, {self.retired} accepted and dropped",
            "strict": "yes" if self.strict else "no",
            "wrapped": ", ".join(self.wrapped),
            "TRITON_PLUGIN": self.plugin,
            "start-up": self.startup,
            "fixes": ", ".join(fixes),
        }
        return "\n".join(f"{name:16} {value or '-'}" for name, value in rows.items())


def current() -> Status:
    """The status of this process. It imports no part of Triton, waits for nothing, and never raises."""
    switch, startup = shim.switch, progress.read()
    source_class = generations.live_source_class()
    shape = backend = installed = by = None
    needed = True
    if source_class is not None or generations.is_imported():
        try:
            generation = generations.detect()
            shape, needed = generation.label, not generation.delivers_itself
        except Exception as error:  # a CompatError, or what nobody foresaw
            shape = " ".join(str(error).split())
    if source_class is not None:
        if generations.delivers(source_class, generations.ProbeKernel(plain=False)):
            acts = "constants" in switch.fixes and needed
            by = "triton_ascend_compat" if acts else "Triton itself"
        backend = generations.npu_backend_class()
        installed = _installed(backend)
    triton = sys.modules.get("triton")
    return Status(
        active=by is not None,
        by=by,
        needed=needed,
        reason=_reason(by, needed, shape, backend is not None, startup),
        strict=switch.strict,
        triton=generations.installed_release() if triton is not None else None,
        triton_path=next(iter(getattr(triton, "__path__", ())), None),
        files=installation.whose_files(),
        generation=shape,
        backend=f"{backend.__module__}.{backend.__qualname__}" if backend is not None else None,
        options=len(installed.types) if installed is not None else 0,
        retired=len(installed.retired) if installed is not None else 0,
        wrapped=installer.wrapped(),
        plugin=os.environ.get(VARIABLE),
        startup=startup.reason,
        fixes=_fixes(),
        data={name: bool(switch.fixes) and name not in switch.without for name in DATA},
    )


def _installed(backend: type | None) -> Any:
    from triton_ascend_compat.decision import policy

    try:
        return policy.read_installed(backend) if backend is not None else None
    except Exception:  # a backend that does not tell its options is still a backend
        return None


def _fixes() -> tuple[FixStatus, ...]:
    switch = shim.switch
    rows = []
    for fix in FIXES:
        on = fix.name in switch.fixes
        why_off = switch.off.get(fix.name) or switch.without.get(fix.name) or "the shim is not switched on"
        texts = [fix.tell(what) for what in ("WHY", "HOW", "UPSTREAM", "UNTIL")]
        rows.append(FixStatus(fix.name, on, None if on else why_off, *texts))
    return tuple(rows)


def _reason(
    by: str | None, needed: bool, shape: str | None, backend_found: bool, startup: progress.StartupState
) -> str:
    """Why a leaked option is delivered or not: what the switch says, held against what was found."""
    switch = shim.switch
    if by is not None and not needed:
        return "not needed: this Triton delivers leaked options itself"
    if by is not None:
        return f"switched on; {shape}"
    if "triton" in sys.modules and shape is None:
        return "Triton is being imported; ask again when that has ended"
    if switch.asked is False:
        left = installer.wrapped()
        told = f"; wrapped by others since, so left in place and inert: {', '.join(left)}" if left else ""
        return f"switched off{told}; enable() switches it on"
    if switch.asked is None:
        return startup.reason
    if "triton" not in sys.modules:
        return "switched on; it takes effect when Triton is imported"
    if "constants" in switch.without:
        others = [fix.name for fix in FIXES if fix.name in switch.fixes]
        return switch.without["constants"] + (f"; other fixes are on: {', '.join(others)}" if others else "")
    if not backend_found:
        return "switched on, but dormant: no backend for target npu is installed"
    if not switch.fixes:
        return f"not installed: {shape}"
    return "somebody has put back what was there before us, or has reloaded Triton: call enable() again"
