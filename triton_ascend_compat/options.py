"""The options of the installed backend, asked from the backend class that will compile."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import warnings
from collections.abc import Container
from typing import Any

from triton_ascend_compat.decision import catalogue
from triton_ascend_compat.plan import InstalledOptions

#: The name under which late-2026 backends keep the option names that they accept, warn about and drop
#: (triton.backends.ascend.utils in the 3.2.2 line; its backend module imports it from there).
_RETIRED_NAMES = "_DEPRECATED_NPU_OPTIONS"
_RETIRED_HOME = "triton.backends.ascend.utils"

#: Only to have a target to ask with: which options exist does not depend on the chip.
_ANY_ARCH = "Ascend910B2"


@functools.cache
def installed_options(backend_class: type) -> InstalledOptions | None:
    """The options that `backend_class` (a Triton backend for target npu) builds; None where it tells none.

    A public `init` field of the options dataclass is an option. A derived field (`init=False`) is never a
    caller's, and an `InitVar` is no field of the dataclass.
    """
    options_class, built = _options_class(backend_class)
    if options_class is None:
        return None
    fields = [
        field for field in dataclasses.fields(options_class) if field.init and not field.name.startswith("_")
    ]
    types = {
        field.name: field.type.__name__ if isinstance(field.type, type) else str(field.type)
        for field in fields
    }
    retired = _retired_names(backend_class)
    # Fields that are not a caller's, and InitVars, which `dataclasses.fields` leaves out.
    internal = frozenset(options_class.__dataclass_fields__) - types.keys() - retired
    return InstalledOptions(
        types,
        retired,
        _self_renamed(backend_class, types, built),
        internal,
        {name: getattr(built, name) for name in types if hasattr(built, name)},
    )


def _options_class(backend_class: type) -> tuple[Any, Any]:
    """The dataclass that the backend builds its options with, and its default instance (None where the
    backend builds none here)."""
    try:
        options = _parse(backend_class, {})
    except Exception:  # a backend may need its device to build options; its module still names the class
        options = _globals_of(backend_class).get("NPUOptions")
    if isinstance(options, type):
        return (options if dataclasses.is_dataclass(options) else None), None
    return (type(options), options) if dataclasses.is_dataclass(options) else (None, None)


def _parse(backend_class: type, opts: dict[str, Any]) -> Any:
    """What the backend itself makes of `opts`, without anybody's wrapper."""
    from triton.backends.compiler import GPUTarget

    backend = backend_class(GPUTarget("npu", _ANY_ARCH, 0))
    return inspect.unwrap(backend_class.parse_options)(backend, opts)  # type: ignore[attr-defined]


def _self_renamed(backend_class: type, types: Container[str], built: Any) -> frozenset[str]:
    """The old names that the backend turns into new ones itself, found by asking it to: what it builds with
    the old name given differs from what it builds with nothing given."""
    if built is None:
        return frozenset()
    found = set()
    for rename in catalogue.renames():
        if rename.old in types or rename.new not in types:
            continue
        # Two samples, since one may be the default.
        for sample in [old for old, _ in rename.values[:1]] or [2, 3]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    asked = _parse(backend_class, {rename.old: sample})
                except Exception:  # it knows the name, if only to refuse the sample
                    found.add(rename.old)
                    break
            if getattr(asked, rename.new) != getattr(built, rename.new):
                found.add(rename.old)
                break
    return frozenset(found)


def _retired_names(backend_class: type) -> frozenset[str]:
    module_globals = _globals_of(backend_class)
    elsewhere = getattr(sys.modules.get(_RETIRED_HOME), _RETIRED_NAMES, ())
    return frozenset(module_globals.get(_RETIRED_NAMES, elsewhere))


def _globals_of(backend_class: type) -> dict[str, Any]:
    """The globals of the module that defines `backend_class`, which need not be in `sys.modules`."""
    parse_options = inspect.unwrap(backend_class.parse_options)  # type: ignore[attr-defined]
    module_globals: dict[str, Any] = getattr(parse_options, "__globals__", {})
    return module_globals
