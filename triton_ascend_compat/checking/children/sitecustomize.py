"""Starts the recording of `check` in every Python process below one of its targets.

`check` puts this folder in front of PYTHONPATH there, and `startup/children` behind it, which makes the
package known without a trace on the path. `site` imports one `sitecustomize` only, so those that this one
shadows are run first.
"""

from __future__ import annotations

import importlib
import os
import sys

_HERE = os.path.dirname(__file__)  # noqa: PTH120 - nothing is imported that the program might have its own of
sys.path[:] = [entry for entry in sys.path if entry != _HERE]
_this = sys.modules.pop("sitecustomize")
try:
    importlib.import_module("sitecustomize")
finally:
    sys.modules.setdefault("sitecustomize", _this)
    importlib.import_module("triton_ascend_compat.checking.child").start()
