"""A stand-in for what torch_npu brings: the device "npu", `torch.npu`, and some of `torch_npu` itself.

There is no memory but the CPU's: a tensor that is put on the device is a CPU tensor of its own, a copy, and
says that it is on the CPU. Nothing is queued. A device is described as the chip of the session. What no test
has needed is missing, which is an AttributeError.
"""

from __future__ import annotations

import contextlib
import functools
from types import ModuleType, SimpleNamespace
from typing import Any, Callable

import torch

from triton_ascend_compat.offline.session import current_session

#: What makes a tensor out of no tensor, in ATen; all other factories are written in terms of these.
_FACTORIES = ("empty.memory_format", "empty_strided", "tril_indices", "triu_indices")

_COMMANDS = """set_device synchronize empty_cache reset_peak_memory_stats reset_max_memory_allocated
    manual_seed manual_seed_all init _lazy_init set_stream set_compile_mode"""
_COUNTS = "current_device memory_allocated max_memory_allocated memory_reserved max_memory_reserved"

#: What is registered lasts as long as this object does.
_library = torch.library.Library("aten", "IMPL")


def install() -> None:
    """Give torch the stand-ins, if it has no `torch.npu`.

    Before torch 2.9, the first whose devices can be written in Python, `x.to("npu")` stays an error of
    torch's; `x.npu()`, `x.to("npu:0")` and the factories work.
    """
    if hasattr(torch, "npu"):
        return
    set_up = getattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend", None)
    if set_up is not None:
        set_up("npu", _module())
    else:
        torch.utils.rename_privateuse1_backend("npu")
        torch.utils.generate_methods_for_privateuse1_backend()
        torch._register_device_module("npu", _module())
    for name in _FACTORIES:
        _library.impl(name, _on_the_cpu(name), "PrivateUse1")
    torch.Tensor.cpu = _copied(torch.Tensor.cpu)


def names() -> dict[str, Any]:
    """What `import torch_npu` gives."""
    return {"npu": torch.npu, "npu_fusion_attention": _attention}


def _on_the_cpu(name: str) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    make = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return lambda *args, **kwargs: make(*args, **{**kwargs, "device": "cpu"})


def _copied(to_cpu: Callable[..., Any]) -> Callable[..., Any]:
    """From a device, `cpu()` is a copy: what a kernel writes later must not be seen in it."""

    @functools.wraps(to_cpu)
    def cpu(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = to_cpu(self, *args, **kwargs)
        return result.clone() if result is self and current_session() is not None else result

    return cpu


def _module() -> Any:
    module = ModuleType("torch.npu", __doc__)
    vars(module).update(
        dict.fromkeys(_COMMANDS.split(), _nothing),
        **dict.fromkeys(_COUNTS.split(), lambda *_, **__: 0),
        **dict.fromkeys(("device", "stream", "Stream", "Event", "current_stream", "default_stream"), _Idle),
        is_available=lambda: current_session() is not None,
        is_initialized=lambda: True,
        _is_in_bad_fork=lambda: False,
        device_count=lambda: 1,
        get_device_name=_chip,
        get_device_capability=lambda *_: None,  # as torch_npu answers: an NPU has no such number
        get_device_properties=lambda *_: SimpleNamespace(name=_chip()),
        get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
        amp=SimpleNamespace(custom_fwd=_unchanged, custom_bwd=_unchanged),
        utils=SimpleNamespace(set_device=_nothing, synchronize=_nothing),
    )
    return module


def _chip(*_: Any) -> str:
    return getattr(current_session(), "chip", "")


def _nothing(*_: Any, **__: Any) -> None:
    """There is no device to tell."""


def _unchanged(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    return function if function is not None else _unchanged


class _Idle(contextlib.nullcontext[None]):
    """A stream, an event, or the choice of one or of a device."""

    npu_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()
        self.record = self.wait = self.wait_stream = self.wait_event = self.synchronize = _nothing
        self.query = lambda: True
        self.elapsed_time = lambda end: float("inf")  # which nobody takes for a time


def _attention(query: Any, key: Any, value: Any, head_num: int, input_layout: str, **how: Any) -> Any:
    """What tests of attention kernels compare with: unmasked, in the layout BNSD."""
    off = {"keep_prob": 1.0, "sparse_mode": 0, "padding_mask": None, "atten_mask": None, "pse": None}
    asked = [name for name, default in off.items() if how.get(name, default) != default]
    if asked or input_layout != "BNSD":
        raise NotImplementedError(f"stand-in for npu_fusion_attention: {', '.join(asked) or input_layout}")
    attention = torch.nn.functional.scaled_dot_product_attention
    return (attention(query, key, value, scale=how.get("scale", 1.0)),)
