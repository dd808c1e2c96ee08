"""The start-up path: what an interpreter does when TRITON_PLUGIN is set. See `startup/` for who calls it.

Nothing here imports more than the standard library's `os`, and the import hook only where this package is
named: every Python process of a user who sets TRITON_PLUGIN passes through.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from triton_ascend_compat._startup_state import StartupState

VARIABLE = "TRITON_PLUGIN"
PLUGIN = "triton_ascend_compat"

#: How often `start` ran here. More than once is normal: `site` may process a directory twice.
runs = 0


def is_named(value: str) -> bool:
    """Whether `value`, a comma-separated list in which `-` and `_` are alike, names this package."""
    return any(name.strip().replace("-", "_") == PLUGIN for name in value.split(","))


def start() -> None:
    """If TRITON_PLUGIN names this package, install the shim as soon as triton has been imported."""
    global runs
    runs += 1
    if is_named(os.environ.get(VARIABLE, "")):
        arm()


def arm() -> None:
    """Install the shim as soon as triton has been imported, at once if it has; twice is once."""
    from triton_ascend_compat import _import_hook

    _import_hook.arm("triton", _install)


def disarm() -> None:
    """Forget a hook that has not fired: triton may be imported later without the shim."""
    from triton_ascend_compat import _import_hook

    _import_hook.disarm("triton")


def _install() -> None:
    from triton_ascend_compat.installer import install_automatically

    install_automatically()


def state() -> StartupState:
    """How far the start-up path of this process got, and why; for `status`, not for the start-up path."""
    from triton_ascend_compat import _startup_state

    return _startup_state.read()
