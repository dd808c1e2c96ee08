"""The chips that triton-ascend compiles for, by the names its `TRITON_ASCEND_ARCH` accepts."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

DEFAULT_CHIP = "Ascend910B2"


class UnknownChip(ValueError):
    """A chip name that triton-ascend does not accept."""


@dataclass(frozen=True)
class Chip:
    """`family`: the product generation. `cube_cores`: what the driver reports as `num_aicore`; a chip has
    twice as many vector cores."""

    family: str
    cube_cores: int


#: Names: `get_ascend_arch_from_env` in triton/backends/ascend/utils.py of the 3.2.0 wheel (the branches
#: release/3.2.x and main of triton-ascend hold the same list). Core counts: the device specification that
#: bishengir-compile of ascendnpu-ir 1.2.0 writes into a module for that target; it knows no 310B, where
#: one core is assumed.
CHIPS = {
    "Ascend910B1": Chip("A2", 24),
    "Ascend910B2": Chip("A2", 24),
    "Ascend910B3": Chip("A2", 20),
    "Ascend910B4": Chip("A2", 20),
    "Ascend910_9362": Chip("A3", 20),
    "Ascend910_9372": Chip("A3", 20),
    "Ascend910_9381": Chip("A3", 24),
    "Ascend910_9382": Chip("A3", 24),
    "Ascend910_9391": Chip("A3", 24),
    "Ascend910_9392": Chip("A3", 24),
    "Ascend310B1": Chip("310B", 1),
    "Ascend310B2": Chip("310B", 1),
    "Ascend310B3": Chip("310B", 1),
    "Ascend310B4": Chip("310B", 1),
    "Ascend910_9579": Chip("A5", 28),
    "Ascend910_9581": Chip("A5", 32),
    "Ascend910_9589": Chip("A5", 32),
    "Ascend910_9599": Chip("A5", 36),
}


def check_chip(name: str) -> str:
    """Return `name` if triton-ascend accepts it as a chip; raise `UnknownChip` naming the nearest ones."""
    if name in CHIPS:
        return name
    near = difflib.get_close_matches(name, CHIPS, n=3, cutoff=0.5) or list(CHIPS)
    raise UnknownChip(f"unknown chip {name!r}; triton-ascend accepts {', '.join(near)}")
