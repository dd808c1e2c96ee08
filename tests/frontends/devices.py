"""A stand-in for the npu device, as far as torch's Inductor looks at it. Nothing can be computed on it."""

from __future__ import annotations

import functools
import importlib.util
from types import SimpleNamespace
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._inductor.runtime.hints import DeviceProperties

#: What torch reads from a real Ascend 910B2, made by hand.
PROPERTIES = DeviceProperties(
    type="npu", index=0, multi_processor_count=48, cc="Ascend910B2", max_threads_per_block=1024, warp_size=32
)


class StandInNPUInterface(DeviceInterface):
    """The device interface, without a device."""

    class Worker:
        @staticmethod
        def set_device(device: int) -> None:
            pass

        @staticmethod
        def current_device() -> int:
            return 0

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            return StandInNPUInterface.get_device_properties(device)

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        pass

    @staticmethod
    def exchange_device(device: int) -> int:
        return 0

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return 0

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def synchronize(device: Any = None) -> None:
        pass

    @staticmethod
    def get_raw_stream(device: int) -> int:
        return 0

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        return str(PROPERTIES.cc)

    @staticmethod
    def get_device_properties(device: Any = None) -> Any:
        return SimpleNamespace(multi_processor_count=48, warp_size=32, max_threads_per_block=1024)


@functools.cache
def register() -> None:
    """Make `npu` a device type of torch, with the stand-in behind it; where torch_npu is installed, it does
    the first."""
    if importlib.util.find_spec("torch_npu") is not None:
        importlib.import_module("torch_npu")
    if torch._C._get_privateuse1_backend_name() != "npu":
        torch.utils.rename_privateuse1_backend("npu")
    register_interface_for_device("npu", StandInNPUInterface)
    register_interface_for_device("npu:0", StandInNPUInterface)
