"""Compiles leaky calls in torch Inductor's worker pool; prints one line of JSON. A script of the tests.

python inductor_pool.py pool fork|spawn
python inductor_pool.py async subprocess|fork|spawn
"""

from __future__ import annotations

import json
import os
import sys

SOURCE = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

@triton_heuristics.user_autotune(
    configs=[{configs}],
    inductor_meta={{'kernel_name': 'add_one', 'grid_type': 'FixedGrid', 'fixed_grid': ['1', '1', '1']}},
    triton_meta={{
        'signature': {signature},
        'device': DeviceProperties(
            type='npu', index=0, multi_processor_count=48, cc='Ascend910B2', max_threads_per_block=1024,
            warp_size=32,
        ),
        'constants': {{}},
        'configs': [{{}}],
    }},
    filename=__file__,
    custom_kernel=True,
)
@triton.jit
def add_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask) + 1, mask)
"""


def in_the_pool(kind: str) -> dict[str, object]:
    """A function of our own in the pool; the compiled candidates, with their sources, come back pickled."""
    import workers
    from torch._inductor.compile_worker.subproc_pool import SubprocKind, SubprocPool

    pool = SubprocPool(2, kind=SubprocKind(kind))
    try:
        tuner = pool.submit(workers.compile_leaky_candidates).result(300)
    finally:
        pool.shutdown()
    kernels = [result.kernel for result in tuner.compile_results]
    return {
        "multibuffer": [kernel.metadata.multibuffer for kernel in kernels],
        "leaked in the parent's source": ["multibuffer" in kernel.src.constants for kernel in kernels],
    }


def by_async_compile(kind: str) -> dict[str, object]:
    """What generated code does: AsyncCompile.triton on a source text."""
    os.environ["TRITON_NPU_STANDIN_ACTIVE"] = "1"  # the worker looks for an active driver
    import devices
    import torch._inductor.config as config
    from kernels import add_one
    from support import signature_for
    from torch._inductor.async_compile import AsyncCompile

    devices.register()
    candidates = ", ".join(
        repr({"BLOCK": 128, "multibuffer": flag, "num_warps": 4, "num_stages": 1}) for flag in (False, True)
    )
    source = SOURCE.format(configs=candidates, signature=signature_for(add_one, {"BLOCK": 128}))
    with config.patch(compile_threads=2, worker_start_method=kind):
        AsyncCompile.wait_pool_ready(120)
        in_a_worker = AsyncCompile.use_process_pool()
        tuner = AsyncCompile().triton("add_one", source, device_str="npu").result()
    return {
        "multibuffer": [result.kernel.metadata.multibuffer for result in tuner.compile_results],
        "in a worker": in_a_worker,
    }


def main() -> None:
    jobs = {"pool": (in_the_pool, "fork|spawn"), "async": (by_async_compile, "subprocess|fork|spawn")}
    name, kind = [*sys.argv[1:], "", ""][:2]
    if name not in jobs or kind not in jobs[name][1].split("|"):
        ways = " or ".join(f"{name} {kinds}" for name, (_, kinds) in jobs.items())
        print(f"usage: inductor_pool.py {ways}", file=sys.stderr)
        raise SystemExit(2)
    try:
        report = jobs[name][0](kind)
    except Exception as error:
        report = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
