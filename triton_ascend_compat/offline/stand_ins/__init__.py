"""Stand-ins for what code for an NPU imports and what only an Ascend machine, or another release, has."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from triton_ascend_compat.startup import import_hook


@contextlib.contextmanager
def for_torch_npu() -> Iterator[None]:
    """Inside the `with` block `import torch_npu` works, and torch has the device "npu": see `npu`.

    Nothing happens where torch_npu is installed. Torch is not imported by this, and cannot take a device
    back: where it is imported, the device lasts as long as the process.
    """
    if importlib.util.find_spec("torch_npu") is not None:
        yield
        return
    import_hook.arm("torch", _give_torch_the_device)
    sys.meta_path.append(_finder)
    try:
        yield
    finally:
        import_hook.disarm("torch", _give_torch_the_device)
        sys.meta_path.remove(_finder)
        sys.modules.pop("torch_npu", None)


def _give_torch_the_device() -> None:
    from triton_ascend_compat.offline.stand_ins import npu

    npu.install()


class _Finder:
    """Stands at the end of `sys.meta_path`, where it is asked for what nobody else has."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, _finder, origin="stand-in") if name == "torch_npu" else None

    def create_module(self, spec: ModuleSpec) -> None:
        """An ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        import torch  # noqa: F401 - before `npu`, which its import installs

        from triton_ascend_compat.offline.stand_ins import npu

        npu.install()
        vars(module).update(npu.names())


_finder: Any = _Finder()
