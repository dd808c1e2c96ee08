"""Starts the shim in child processes whose site directories hold no start-up file of this package.

`run` puts this folder in front of PYTHONPATH there. It leaves the path again at once: what the program
imports, it finds where it would without us. `site` imports one `sitecustomize` only, so the one that this
shadows is run afterwards.
"""

from __future__ import annotations

import importlib.util
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_HERE = os.path.dirname(__file__)
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))
_START = "_triton_ascend_compat_start"
_FILES = {
    "triton_ascend_compat": (f"{_PACKAGE}/__init__.py",),
    _START: (f"{_PACKAGE}/../{_START}.py", f"{_PACKAGE}/startup/{_START}.py"),  # from a wheel; in a checkout
}


class _Finder:
    """Finds this package where the path leads to none, and nothing that lies beside it."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        file = next(filter(os.path.isfile, _FILES.get(fullname, ())), None)
        return importlib.util.spec_from_file_location(fullname, file) if file else None


def _run_shadowed() -> None:
    this = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


sys.path[:] = [entry for entry in sys.path if entry != _HERE]
sys.meta_path.append(_Finder)
try:
    importlib.import_module(_START).start()
finally:
    _run_shadowed()
