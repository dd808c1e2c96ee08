"""Where the stand-ins for torch_npu come in: with `import torch`, and with `import torch_npu` itself."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from triton_ascend_compat.startup import import_hook

_NAME = "torch_npu"


@contextlib.contextmanager
def for_torch_npu() -> Iterator[None]:
    """Inside the `with` block, torch has the device "npu" and `import torch_npu` works, on CPU tensors.

    Nothing happens where torch_npu is installed, and torch is not imported by this. PyTorch cannot take a
    device type back: where it was imported, the device lasts as long as the process.
    """
    if importlib.util.find_spec(_NAME) is not None:
        yield
        return
    import_hook.arm("torch", _give_torch_the_device)
    sys.meta_path.append(_finder)
    try:
        yield
    finally:
        import_hook.disarm("torch", _give_torch_the_device)
        sys.meta_path.remove(_finder)
        sys.modules.pop(_NAME, None)


def _give_torch_the_device() -> None:
    from triton_ascend_compat.offline.stand_ins import npu

    npu.install()


class _Finder:
    """Stands at the end of `sys.meta_path`, so that it is only asked where nobody else has torch_npu."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, origin="stand-in") if name == _NAME else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """An ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        importlib.import_module("torch")  # which gets the device
        from triton_ascend_compat.offline.stand_ins import npu

        vars(module).update(npu.names_of_torch_npu())


_finder: Any = _Finder()
