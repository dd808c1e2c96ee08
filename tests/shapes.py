"""Backends of other option shapes inside the triton-ascend 3.2.0 of the tests: the stand-in backend of
tests/standin, put into Triton's registry for a while, with its driver as the active one. Only the backend is
a stand-in; the front end is the wheel's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import sys
from pathlib import Path
from unittest import mock

import triton_ascend_compat

STANDIN = Path(__file__).parent / "standin" / "src" / "triton" / "backends" / "ascend"

SHAPES = ("3.2.0", "3.2.1", "late-2026")


@contextlib.contextmanager
def backend_shape(shape, forgets_old_names=False):
    """Triton with the stand-in backend of `shape`; yields its module. If the shim is switched on meanwhile,
    it is switched off at the end, since what it wrapped goes.

    `forgets_old_names`: it has the new names of renamed options and does not take the old ones.
    """
    from triton.backends import Backend, backends
    from triton.backends.ascend import utils
    from triton.runtime.driver import driver

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict("os.environ", {"TRITON_NPU_STANDIN_SHAPE": shape}))
        compiler = stack.enter_context(_loaded("compiler"))
        device = stack.enter_context(_loaded("driver")).StandInNPUDriver()
        if shape == "late-2026":
            names = stack.enter_context(_loaded("utils"))._DEPRECATED_NPU_OPTIONS
            stack.enter_context(mock.patch.object(utils, "_DEPRECATED_NPU_OPTIONS", names, create=True))
        if forgets_old_names:
            fields = [field.name for field in dataclasses.fields(compiler.NPUOptions) if field.init]

            def parse_options(self, opts):
                return compiler.NPUOptions(**{key: value for key, value in opts.items() if key in fields})

            stack.enter_context(
                mock.patch.object(compiler.StandInAscendBackend, "parse_options", parse_options)
            )
        entry = Backend(compiler=compiler.StandInAscendBackend, driver=type(device))
        stack.enter_context(mock.patch.dict(backends, {"ascend": entry}))
        stack.enter_context(mock.patch.object(driver, "active", device))
        stack.callback(triton_ascend_compat.disable)
        yield compiler


@contextlib.contextmanager
def _loaded(name):
    spec = importlib.util.spec_from_file_location(f"standin_{name}", STANDIN / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {spec.name: module}):
        spec.loader.exec_module(module)
        yield module
