"""The options of the installed backend, asked from the backend class that will compile."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from typing import Any

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
    options_class = _options_class(backend_class)
    if options_class is None:
        return None
    types = {
        field.name: field.type.__name__ if isinstance(field.type, type) else str(field.type)
        for field in dataclasses.fields(options_class)
        if field.init and not field.name.startswith("_")
    }
    return InstalledOptions(types, _retired_names(backend_class))


def _options_class(backend_class: type) -> Any:
    """The dataclass that the backend builds its options with."""
    from triton.backends.compiler import GPUTarget

    try:
        options = backend_class(GPUTarget("npu", _ANY_ARCH, 0)).parse_options({})
    except Exception:  # a backend may need its device to build options; its module still names the class
        options = _globals_of(backend_class).get("NPUOptions")
    options_class = options if isinstance(options, type) else type(options)
    return options_class if dataclasses.is_dataclass(options_class) else None


def _retired_names(backend_class: type) -> frozenset[str]:
    module_globals = _globals_of(backend_class)
    elsewhere = getattr(sys.modules.get(_RETIRED_HOME), _RETIRED_NAMES, ())
    return frozenset(module_globals.get(_RETIRED_NAMES, elsewhere))


def _globals_of(backend_class: type) -> dict[str, Any]:
    """The globals of the module that defines `backend_class`, which need not be in `sys.modules`."""
    parse_options = inspect.unwrap(backend_class.parse_options)  # type: ignore[attr-defined]
    module_globals: dict[str, Any] = getattr(parse_options, "__globals__", {})
    return module_globals
