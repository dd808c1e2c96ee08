"""Stand-in for the driver side of the Ascend backend: see tests/standin/README.md. Nothing is launched."""

import os

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

LAUNCHES = []


class _Utils:
    def get_device_properties(self, device):
        return {
            "max_shared_mem": 192 * 1024,
            "num_aicore": 24,
            "num_vectorcore": 48,
            "multiprocessor_count": 48,
            "warpSize": 32,
        }

    def load_binary(self, name, binary, shared, device):
        from triton.compiler.compiler import CompiledKernel

        handles = (None, object(), 0, 0)
        # Triton 3.4 and later ask for the largest number of threads too.
        return (
            (*handles, 1 << 20)
            if "n_max_threads" in CompiledKernel._init_handles.__code__.co_names
            else handles
        )

    def unload_module(self, module):
        pass


class _Launcher:
    """Reads the constants again, as the launcher of triton-ascend does; records the launch."""

    def __init__(self, src, metadata):
        if hasattr(src, "fn"):
            for key in src.constants:
                if isinstance(key, str):
                    src.fn.arg_names.index(key)
        self.metadata = metadata

    def __call__(self, grid_x, grid_y, grid_z, stream, function, *args):
        LAUNCHES.append(((grid_x, grid_y, grid_z), self.metadata))


class StandInNPUDriver(DriverBase):
    def __init__(self):
        self.utils = _Utils()
        self.launcher_cls = _Launcher
        super().__init__()

    @classmethod
    def is_active(cls):
        return os.environ.get("TRITON_NPU_STANDIN_ACTIVE") == "1"

    def map_python_to_cpp_type(self, ty):
        return "void*" if ty.startswith("*") else ty

    def get_current_target(self):
        return GPUTarget("npu", "Ascend910B2", 0)

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return 0

    def get_active_torch_device(self):
        import torch

        return torch.device("cpu")

    def get_device_interface(self):
        raise NotImplementedError("the stand-in has no device")

    def get_benchmarker(self):
        def benchmark(kernel_call, *, quantiles=None, **_):
            kernel_call()
            return [1.0] * len(quantiles or (0.5,))

        return benchmark

    def get_empty_cache_for_benchmark(self):
        return None

    def clear_cache(self, cache):
        pass
