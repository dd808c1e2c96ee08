"""All that a decision about a key needs, in one place: the installed backend's options and the data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from triton_ascend_compat import generations
from triton_ascend_compat.decision import catalogue
from triton_ascend_compat.decision.catalogue import ForeignOption, KnownOption, Rename
from triton_ascend_compat.options import installed_options
from triton_ascend_compat.plan import InstalledOptions


class Knowledge(NamedTuple):
    """The last arguments of `plan.decide_key`, in its order."""

    installed: InstalledOptions
    known: Mapping[str, KnownOption]
    renames: tuple[Rename, ...]
    foreign: Mapping[str, ForeignOption]


def gather(fixes: Collection[str], backend_class: type | None = None) -> Knowledge | None:
    """What is known with the named fixes on; None where no npu backend is installed.

    Args:
        fixes: the names of the fixes that are on: without `renames` or `foreign` those data are empty.
        backend_class: the npu backend's class; None looks it up.
    """
    backend_class = backend_class or generations.npu_backend_class()
    installed = installed_options(backend_class) if backend_class is not None else None
    if installed is None:
        return None
    return Knowledge(
        installed,
        catalogue.known_options(),
        catalogue.renames() if "renames" in fixes else (),
        catalogue.foreign_options() if "foreign" in fixes else {},
    )
