"""A stand-in for what torch_npu brings: the device "npu", `torch.npu`, and some names of `torch_npu` itself.

There is no memory but the CPU's: a tensor that is put on the device is a CPU tensor of its own, with a copy of
the contents, and says that its device is the CPU. Nothing is queued, so there is nothing to wait for; what a
device would be asked for is answered for the chip of the session. Names that no code here has needed are
missing: an AttributeError names them.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

import torch

from triton_ascend_compat.offline.session import current_session

NAME = "npu"

#: What makes a tensor out of no tensor, in ATen; all other factories are written in terms of these.
_FACTORIES = ("empty.memory_format", "empty_strided", "tril_indices", "triu_indices")

_DO_NOTHING = """
    set_device synchronize empty_cache reset_peak_memory_stats reset_max_memory_allocated manual_seed
    manual_seed_all init _lazy_init set_stream ipc_collect set_compile_mode
""".split()
_ANSWER_ZERO = """
    current_device memory_allocated max_memory_allocated memory_reserved max_memory_reserved
""".split()


def install() -> None:
    """Give torch the stand-ins, if it has no `torch.npu`.

    Before torch 2.9, which brought devices whose kernels are written in Python, a device without a number
    (`x.to("npu")`, not `x.npu()` or `x.to("npu:0")`) stays an error of torch's.
    """
    if hasattr(torch, NAME):
        return
    set_up = getattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend", None)
    if set_up is not None:
        set_up(NAME, _module())
    else:
        torch.utils.rename_privateuse1_backend(NAME)
        torch.utils.generate_methods_for_privateuse1_backend()
        torch._register_device_module(NAME, _module())
    for name in _FACTORIES:
        _library.impl(name, _on_the_cpu(name), "PrivateUse1")
    torch.Tensor.cpu = _copied(torch.Tensor.cpu)  # type: ignore[method-assign]


#: What is registered lasts as long as this object does.
_library = torch.library.Library("aten", "IMPL")


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


def names_of_torch_npu() -> dict[str, Any]:
    """What `import torch_npu` gives."""
    return {NAME: getattr(torch, NAME), "npu_fusion_attention": _attention}


def _module() -> Any:
    module: Any = types.ModuleType(f"torch.{NAME}", __doc__)
    vars(module).update(
        dict.fromkeys(_DO_NOTHING, _nothing),
        **dict.fromkeys(_ANSWER_ZERO, lambda *_, **__: 0),
        is_available=lambda: current_session() is not None,
        device_count=lambda: 1,
        device=_Idle,
        Stream=_Idle,
        Event=_Idle,
        stream=_Idle,
        current_stream=_Idle,
        default_stream=_Idle,
        get_device_name=lambda *_: _chip(),
        get_device_capability=lambda *_: None,  # as torch_npu answers: an NPU has no such number
        get_device_properties=lambda *_: types.SimpleNamespace(name=_chip()),
        amp=types.SimpleNamespace(custom_fwd=_unchanged, custom_bwd=_unchanged),
        get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
        is_initialized=lambda: True,
        _is_in_bad_fork=lambda: False,
    )
    module.utils = types.SimpleNamespace(set_device=_nothing, synchronize=_nothing)
    return module


def _chip() -> str:
    session = current_session()
    return session.chip if session is not None else ""


def _nothing(*_: Any, **__: Any) -> None:
    """There is no device to tell."""


def _unchanged(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    return function if function is not None else _unchanged


class _Idle:
    """A stream, an event, or the choice of a device: nothing was queued, and no time is measured."""

    npu_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.record = self.wait = self.wait_stream = self.wait_event = self.synchronize = _nothing

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: _Idle) -> float:
        return float("inf")  # which nobody takes for a time

    def __enter__(self) -> _Idle:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""


def _attention(query: Any, key: Any, value: Any, head_num: int, input_layout: str, **how: Any) -> tuple[Any]:
    """The reference that tests of attention kernels compare with: unmasked, in its BNSD layout."""
    off = {"keep_prob": 1.0, "sparse_mode": 0, "padding_mask": None, "atten_mask": None, "pse": None}
    asked = [name for name, value in off.items() if how.get(name, value) != value]
    if asked or input_layout != "BNSD":
        raise NotImplementedError(f"the stand-in for npu_fusion_attention: {', '.join(asked) or input_layout}")
    weights = (query.float() @ key.float().transpose(-1, -2) * how.get("scale", 1.0)).softmax(-1)
    return ((weights @ value.float()).to(query.dtype),)
