"""A stand-in for the Ascend driver: enough for Triton's JIT and tuners to compile, and to launch nothing.

Nothing is executed and nothing is timed. What a launch would have needed a device for is counted only.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from triton_ascend_compat.offline.chips import chip_named
from triton_ascend_compat.offline.compiling import (
    FOLDED_FIELD,
    MOST_BLOCKS,
    Compile,
    Launch,
    blocks_of,
    local_values,
)
from triton_ascend_compat.offline.execute import trial


class Pointer:
    """Stands for a tensor of `dtype` ("fp32", "bf16", "i64"…) in a launch or warm-up, where there is no
    torch. Its address counts as aligned to 16 bytes, as a tensor's does."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    @staticmethod
    def data_ptr() -> int:
        return 0

    @staticmethod
    def ptr_range() -> int:
        return 0

    def __repr__(self) -> str:
        return f"Pointer({self.dtype!r})"


class RecordingDriver:
    """The stand-in driver. `session` gives the session that the calling thread compiles in."""

    def __init__(self, session: Callable[[], Any], takes_thread_limit: bool) -> None:
        """`takes_thread_limit`: whether this Triton's `load_binary` also returns a limit of threads."""
        self._session = session
        self.utils = _Utils(session, takes_thread_limit)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> Any:
        return self._session().target

    def get_current_device(self) -> int:
        return int(self._session().device)

    def set_current_device(self, device: int) -> None:
        """There is none to set."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., Any]:
        return self._benchmark

    def _benchmark(self, kernel_call: Callable[[], Any], **kwargs: Any) -> Any:
        # Triton 3.2 asks for the benchmark when a tuner is decorated, and the tuner may outlive the session.
        if self._session() is not None:
            return compile_only(kernel_call, **kwargs)
        from triton.runtime.driver import driver

        return driver.active.get_benchmarker()(kernel_call, **kwargs)

    def launcher_cls(self, src: Any, metadata: Any) -> Callable[..., None]:
        folded = getattr(metadata, FOLDED_FIELD, True)

        def launch(*args: Any, **kwargs: Any) -> None:
            session = self._session()
            blocks = blocks_of(args[:3])
            if blocks > MOST_BLOCKS and not folded:
                try:
                    raise GridTooLarge(blocks)
                except GridTooLarge as error:
                    # A kernel that is launched without its JITFunction has nobody else to tell of it.
                    if all(type(value) is not Launch for value in local_values()):
                        Launch(session, src.fn, (), {**src.constants, "grid": args[:3]}).failed(error)
                    raise
            session.count_launch()

        return launch


class GridTooLarge(RuntimeError):
    """A launch of more blocks than the device takes of a kernel that does not fold them."""

    def __init__(self, blocks: int) -> None:
        super().__init__(
            f"a grid of {blocks} blocks, and {MOST_BLOCKS} is the most that a launch takes of a kernel that "
            "was compiled without folding (TRITON_ALL_BLOCKS_PARALLEL=1 at its compile folds)"
        )


def compile_only(kernel_call: Callable[[], Any], quantiles: Any = (0.5,), **_: Any) -> list[float]:
    """A tuner's benchmark that compiles the candidate and measures nothing: all that compile tie."""
    with trial():
        kernel_call()
    return [0.0] * len(quantiles or (0.5,))


def measures_infinity(session: Callable[[], Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """`triton.testing.do_bench`, for a script that benchmarks by itself: the kernels compile, and the time is
    infinite, which nobody takes for a time."""

    @functools.wraps(original)
    def do_bench(fn: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
        if session() is None:
            return original(fn, *args, **kwargs)
        with trial():
            fn()
        quantiles = kwargs.get("quantiles")
        return [float("inf")] * len(quantiles) if quantiles else float("inf")

    return do_bench


class NPUUtils:
    """Stand-in for the class by which the backend asks the device which chip it is."""

    def __init__(self, session: Callable[[], Any]) -> None:
        self._session = session

    def get_arch(self) -> str:
        """The chip that is being compiled for, whatever target the caller named, or else the session's."""
        for compile_ in local_values():
            if type(compile_) is Compile:
                return compile_.chip
        session = self._session()
        return session.chip if session is not None else ""


class _Utils(NPUUtils):
    def __init__(self, session: Callable[[], Any], takes_thread_limit: bool) -> None:
        super().__init__(session)
        self._loaded = (object(), object(), 0, 0) + ((1 << 30,) if takes_thread_limit else ())

    def get_device_properties(self, device: Any) -> dict[str, int]:
        cores = chip_named(self._session().chip).cube_cores
        return {
            "max_shared_mem": 1 << 30,
            "num_aicore": cores,
            "num_vectorcore": 2 * cores,
            "multiprocessor_count": cores,
        }

    def load_binary(self, *args: Any) -> tuple[Any, ...]:
        return self._loaded

    def unload_module(self, module: Any) -> None:
        """There is none to unload."""

    def get_aicore_num(self) -> int:
        return self.get_device_properties(None)["num_aicore"]

    def get_aivector_core_num(self) -> int:
        return self.get_device_properties(None)["num_vectorcore"]
