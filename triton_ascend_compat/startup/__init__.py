"""The start-up path: what an interpreter does when TRITON_PLUGIN is set, from the start-up files in this
folder, which call `start`, to the hook that installs the shim right after `import triton`.

Nothing here imports more than the standard library's `os`, and the import hook only where this package is
named: every Python process of a user who sets TRITON_PLUGIN passes through.
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
    """If TRITON_PLUGIN names this package, install the shim as soon as triton has been imported.

    Returns:
        One line for the user where the variable seems to misspell the name, else nothing. (Nobody has set
        up logging when an interpreter starts.)
    """
    global runs
    runs += 1
    value = os.environ.get(VARIABLE, "")
    if is_named(value):
        arm()
        return ""
    misspelt = _near_misses(value) if runs == 1 else []
    return f"not active: {VARIABLE} names {', '.join(misspelt)}: write {PLUGIN}" if misspelt else ""


def _near_misses(value: str) -> list[str]:
    """The names in `value` that are close to this package's; all others are other people's business."""
    found = []
    meant = PLUGIN.replace("_", "")
    for name in value.split(","):
        letters = "".join(filter(str.isalnum, name)).lower()
        if abs(len(letters) - len(meant)) <= 4:
            from difflib import SequenceMatcher  # takes milliseconds; most names differ in length

            if SequenceMatcher(None, letters, meant).ratio() >= 0.85:
                found.append(repr(name.strip()))
    return found


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
