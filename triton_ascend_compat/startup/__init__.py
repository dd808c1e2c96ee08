"""The start-up path: what an interpreter does when TRITON_PLUGIN is set, from the start-up files in this
folder, which call `start`, to the hook that installs the shim right after `import triton`.

Every Python process of a user who sets the variable passes through: nothing here imports more than `os`, and
the import hook only where this package is named.
"""

from __future__ import annotations

import os

VARIABLE = "TRITON_PLUGIN"
PLUGIN = "triton_ascend_compat"

#: How often `start` ran here. More than once is normal: `site` may process a directory twice.
runs = 0


def is_named(value: str) -> bool:
    """Whether `value`, a comma-separated list in which `-` and `_` are alike, names this package."""
    return any(name.strip().replace("-", "_") == PLUGIN for name in value.split(","))


def start() -> str:
    """Arm if TRITON_PLUGIN names this package; returns a line for the user where it seems to misspell it."""
    global runs
    runs += 1
    value = os.environ.get(VARIABLE, "")
    if is_named(value):
        arm()
    elif runs == 1:
        for name in value.split(","):
            if _is_near_miss(name):
                return f"not active: {VARIABLE} names {name.strip()!r}, write {PLUGIN}"
    return ""


def _is_near_miss(name: str) -> bool:
    meant, letters = PLUGIN.replace("_", ""), "".join(filter(str.isalnum, name)).lower()
    if abs(len(letters) - len(meant)) > 4:
        return False  # other people's business, as most names: told without the milliseconds of an import
    from difflib import SequenceMatcher

    return SequenceMatcher(None, letters, meant).ratio() >= 0.85


def arm() -> None:
    """Install the shim whenever triton has been imported, now if it has; twice is once."""
    from triton_ascend_compat.startup import import_hook

    import_hook.arm("triton", install)


def disarm() -> None:
    """Forget about that: triton may be imported later without the shim."""
    from triton_ascend_compat.startup import import_hook

    import_hook.disarm("triton", install)


def install() -> None:
    """What the hook on triton calls."""
    from triton_ascend_compat.installer import install_automatically

    install_automatically()
