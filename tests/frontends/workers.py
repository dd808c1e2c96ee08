"""What worker processes of the tests do: compile a leaky call. Never switches the shim on.

python workers.py     # prints what came of it as one line of JSON
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - a start-up script


@contextlib.contextmanager
def compiles_to_the_end():
    from support import IS_STANDIN

    if IS_STANDIN:
        yield
        return
    from triton_ascend_compat.offline import offline

    with offline():
        yield


def compile_leaky(multibuffer: bool = False) -> object:
    """The compiled kernel of a call with a leaked option."""
    from support import compile_npu

    with compiles_to_the_end():
        return compile_npu({"multibuffer": multibuffer})


def compile_leaky_candidates() -> object:
    """What torch Inductor's workers do: a tuner with compiled candidates, made ready for its way home."""
    import devices
    from test_inductor import autotuner
    from torch._inductor.runtime import triton_helpers

    devices.register()
    triton_helpers.set_driver_to_gpu = lambda: None  # it looks for an active driver
    tuner = autotuner({"multibuffer": False}, {"multibuffer": True})
    with compiles_to_the_end():
        tuner.precompile(warm_cache_only=True)
    tuner.prepare_for_pickle()
    return tuner


def outcome_of_leaky(multibuffer: bool = False) -> dict[str, object]:
    """What came of it, as plain data."""
    try:
        kernel = compile_leaky(multibuffer)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"hash": kernel.hash, "multibuffer": kernel.metadata.multibuffer}


def put_outcome(queue: object) -> None:
    queue.put(outcome_of_leaky())


def main() -> None:
    import multiprocessing

    methods = sys.argv[1:]
    report: dict[str, object] = {"rank": os.environ.get("RANK")}
    if not methods:
        report["here"] = outcome_of_leaky()
    for method in methods:
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=put_outcome, args=(queue,))
        process.start()
        report[method] = queue.get()
        process.join()
    # In one step: torchrun's workers share this pipe, and `print` writes the end of a line apart.
    os.write(1, f"{json.dumps(report)}\n".encode())


if __name__ == "__main__":
    main()
