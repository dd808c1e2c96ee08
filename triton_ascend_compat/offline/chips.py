"""The chips that the installed compilers accept, by the names that they have there."""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass

from triton_ascend_compat import generations
from triton_ascend_compat.offline import hivm

DEFAULT_CHIP = "Ascend910B2"


class UnknownChip(ValueError):
    """A chip name that no installed compiler accepts."""


@dataclass(frozen=True)
class Chip:
    """`family`: the product generation. `cube_cores`: what the driver reports as `num_aicore`; a chip has
    twice as many vector cores."""

    family: str
    cube_cores: int


#: How the names of a family begin, and how many cores its chips have: the device specification that
#: bishengir-compile of ascendnpu-ir 1.2.0 writes into a module for that target. It knows no 310B, where one
#: core is assumed.
_FAMILIES = {
    "Ascend910B3": Chip("A2", 20),
    "Ascend910B4": Chip("A2", 20),
    "Ascend910B": Chip("A2", 24),
    "Ascend910_936": Chip("A3", 20),
    "Ascend910_937": Chip("A3", 20),
    "Ascend910_93": Chip("A3", 24),
    "Ascend310B": Chip("310B", 1),
}
_A5_CORES = {"957": 28, "958": 32, "959": 36}


def accepted() -> list[str]:
    """The names that triton-ascend or the bishengir-compile that is found accepts."""
    names = generations.accepted_chips()
    with contextlib.suppress(hivm.HivmUnavailable):
        names += sorted(hivm.targets(hivm.find_tools()) - {*names})
    return names


def chip_named(name: str) -> Chip:
    """What is known of a chip."""
    for prefix, chip in _FAMILIES.items():
        if name.startswith(prefix):
            return chip
    return Chip("A5", _A5_CORES.get(name.rpartition("_")[2][:3], 32))


def renamed(name: str, names: list[str]) -> str | None:
    """The one among `names` that the product `name` is called, too: Ascend950PR_9589 is the new name of
    Ascend910_9589. A5 chips keep the part behind the underscore."""
    product = name.rpartition("_")[2]
    return next((other for other in names if other != name and other.rpartition("_")[2] == product), None)


def check_chip(name: str) -> str:
    """Return `name` if an installed compiler accepts it, or none tells what it accepts; raise `UnknownChip`
    naming the nearest ones."""
    if name in generations.accepted_chips():
        return name
    names = accepted()
    if not names or name in names:
        return name
    other = renamed(name, names)
    if other is not None:
        raise UnknownChip(f"unknown chip {name!r}; the installed compilers call it {other}")
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names
    raise UnknownChip(f"unknown chip {name!r}; the installed compilers accept {', '.join(near)}")
