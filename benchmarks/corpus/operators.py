"""`operators.py PACKAGE`: call the operators of a package that `operators.json` lists, forward and backward.

There, "bf16[64, 1024]" is a tensor of zeros, and an object behind the arguments has the keyword ones. Run it
with `triton-ascend-compat check`. Each operator has a process of its own, as a compiler may crash; one that
stops is told in a line.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from triton.compiler.compiler import triton_key

#: Liger asks for the size of the unified buffer where no device tells it: 192 KiB, as on the chips A2.
os.environ.setdefault("ASCEND_UB_CAPACITY_BITS", str(192 * 1024 * 8))

DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "c64": torch.complex64,
    "i64": torch.int64,
    "bool": torch.bool,
}


def value(data: Any) -> Any:
    """An argument as an operator takes it."""
    if isinstance(data, list):
        return [value(each) for each in data]
    if not isinstance(data, str):
        return data
    dtype, _, shape = data.partition("[")
    tensor = torch.zeros(json.loads(f"[{shape}"), dtype=DTYPES[dtype])
    return tensor.requires_grad_(tensor.is_floating_point())


def call(module: str, path: str, arguments: list[Any]) -> None:
    """Call `module.path`, then its backward."""
    given = list(arguments)
    keywords = given.pop() if isinstance(given[-1], dict) else {}
    name, _, function = f"{module}.{path}".removesuffix(".apply").rpartition(".")
    operator = getattr(importlib.import_module(name), function)
    operator = operator.apply if path.endswith(".apply") else operator
    found = operator(*map(value, given), **{key: value(each) for key, each in keywords.items()})
    outputs = found if isinstance(found, tuple) else (found,)
    driven = [each.sum() for each in outputs if isinstance(each, torch.Tensor) and each.requires_grad]
    if driven:
        torch.autograd.backward(driven)


def main(package: str) -> None:
    """Call them all."""
    known = json.loads(Path(__file__).with_suffix(".json").read_text())[package]
    # Once, before the processes part: the import, and the key of all of Triton that is in every kernel's.
    importlib.import_module(known["modules"][0])
    triton_key()
    for module in known["modules"]:
        for path, arguments in known["operators"].items():
            process = os.fork()
            if process == 0:
                sys.excepthook = _print_line
                call(module, path, arguments)
                return
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            if status:
                print(f"stopped: {module}.{path} (exit code {status})", flush=True)


def _print_line(kind: type[BaseException], error: BaseException, _: object) -> None:
    text = "see above" if "CompilationError" in kind.__name__ else " ".join(str(error).split())[:300]
    print(f"{kind.__name__}: {text}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
