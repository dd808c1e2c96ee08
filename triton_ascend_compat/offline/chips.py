"""The chips that triton-ascend compiles for, by the names its `TRITON_ASCEND_ARCH` accepts."""

from __future__ import annotations

import difflib

DEFAULT_CHIP = "Ascend910B2"

#: Name -> family. From `get_ascend_arch_from_env` in triton/backends/ascend/utils.py of the 3.2.0 wheel;
#: the branches release/3.2.x and main hold the same list.
CHIPS = {
    **dict.fromkeys(("Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4"), "A2"),
    **dict.fromkeys(
        (
            "Ascend910_9362",
            "Ascend910_9372",
            "Ascend910_9381",
            "Ascend910_9382",
            "Ascend910_9391",
            "Ascend910_9392",
        ),
        "A3",
    ),
    **dict.fromkeys(("Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4"), "310B"),
    **dict.fromkeys(("Ascend910_9579", "Ascend910_9581", "Ascend910_9589", "Ascend910_9599"), "A5"),
}


class UnknownChip(ValueError):
    """A chip name that triton-ascend does not accept."""


def check_chip(name: str) -> str:
    """Return `name` if triton-ascend accepts it as a chip; raise `UnknownChip` naming the nearest ones."""
    if name in CHIPS:
        return name
    near = difflib.get_close_matches(name, CHIPS, n=3, cutoff=0.5) or list(CHIPS)
    raise UnknownChip(f"unknown chip {name!r}; triton-ascend accepts {', '.join(near)}")
