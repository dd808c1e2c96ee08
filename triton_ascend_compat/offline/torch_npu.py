"""A stand-in for `torch.npu`, for libraries that ask it which device there is before they launch a kernel.

Such libraries choose their Ascend kernels by `torch.npu`, which torch_npu brings and which needs CANN. The
stand-in answers what a compile needs: that there is one device, and nothing to wait for. There are still no
tensors on it: pass CPU or meta tensors.
"""

from __future__ import annotations

import types
from typing import Any, Callable

from triton_ascend_compat.offline.session import current_session

NAME = "npu"


def install() -> None:
    """Give torch a stand-in `torch.npu` and the device type "npu", if it has none. Needs an open session.

    PyTorch cannot take a device type back: it lasts as long as the process.

    Raises:
        ImportError: torch is not installed.
        RuntimeError: no offline session is open.
    """
    import torch

    if hasattr(torch, NAME):
        return
    if current_session() is None:
        raise RuntimeError("the stand-in for torch.npu describes a chip: install it inside offline(…)")
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _module(torch))


def _module(torch: Any) -> Any:
    module = types.ModuleType(
        f"torch.{NAME}", "Stand-in for torch.npu; see triton_ascend_compat.offline.torch_npu."
    )
    module.__dict__.update(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=_nothing,
        synchronize=_nothing,
        device=_DeviceContext,
        current_stream=lambda *_: _Stream(),
        get_device_name=lambda *_: _chip(),
        get_device_capability=lambda *_: None,  # as torch_npu answers: an NPU has no such number
        get_device_properties=lambda *_: types.SimpleNamespace(name=_chip()),
        amp=types.SimpleNamespace(custom_fwd=_unchanged, custom_bwd=_unchanged),
        get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
        is_initialized=lambda: True,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=_nothing,
    )
    return module


def _chip() -> str:
    session = current_session()
    return session.chip if session is not None else ""


def _nothing(*_: Any, **__: Any) -> None:
    """There is no device to tell."""


def _unchanged(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    return function if function is not None else _unchanged


class _Stream:
    npu_stream = 0

    def synchronize(self) -> None:
        """Nothing was launched."""


class _DeviceContext:
    def __init__(self, device: Any = None) -> None:
        self.device = device

    def __enter__(self) -> _DeviceContext:
        return self

    def __exit__(self, *_: object) -> None:
        """No device was changed."""
