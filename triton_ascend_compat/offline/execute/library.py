"""Fills in `library.mlir`: bodies for functions that linalg only declares, and the runtime of a kernel."""

from __future__ import annotations

import math
import re
from pathlib import Path
from string import Template
from typing import NamedTuple

from triton_ascend_compat.offline.execute.worker import ENTRY

#: The kernel's own name in its library, so that no kernel can be called `free`.
KERNEL = "ascend_kernel"

#: What functions are called that make a memref of an address; the element type follows.
POINTER = "ascend_pointer_"

#: All that is filled in; part of the cache's key.
TEXT = Path(__file__).with_name("library.mlir").read_text(encoding="utf-8")

_PARTS = {
    name: Template("\n".join(line for line in text.splitlines() if not line.startswith("//")))
    for name, text in re.findall(r"^//// (\w+)\n(.*?)(?=^////|\Z)", TEXT, re.MULTILINE | re.DOTALL)
}
_DECLARATION = re.compile(
    r"func\.func private @(?P<name>\w+)\((?P<given>[^)]*)\)(?: -> (?P<result>\S+))?"
    r"(?: attributes \{.*\})?(?=\n)"
)


class NotExecuted(Exception):
    """A kernel, or one of its launches, cannot be computed here; the text says why."""


def fill(part: str, **values: object) -> str:
    """A text of `library.mlir` with these values in it."""
    return _PARTS[part].substitute(values)


class Tensor(NamedTuple):
    """The type of a tensor."""

    shape: tuple[int, ...]
    element: str

    @classmethod
    def of(cls, text: str) -> Tensor:
        """As `text` says it."""
        found = re.fullmatch(r"tensor<((?:\d+x)*)(\w+)>", text)
        if found is None:
            raise NotExecuted(f"a tensor of type {text} has no form on the CPU")
        return cls(tuple(int(size) for size in found[1].split("x")[:-1]), found[2])

    def words(self, name: str) -> dict[str, object]:
        """What texts say of the tensor `name`: its type, that of its buffer, and of one row, `count` long."""
        sizes, count = "".join(f"{size}x" for size in self.shape), math.prod(self.shape)
        whole = {kind: f"{kind}<{sizes}{self.element}>" for kind in ("tensor", "memref")}
        parts = {**whole, "element": self.element, "flat": f"memref<{count}x{self.element}>", "count": count}
        return {f"{name}_{part}": text for part, text in parts.items()}


def with_bodies(text: str) -> str:
    """The linalg text with a body for each function that it only declares.

    Raises:
        NotExecuted: it declares one that has no form on the CPU.
    """

    def define(found: re.Match[str]) -> str:
        name, given, result = found["name"], found["given"].split(", "), found["result"] or ""
        if name.startswith(POINTER):
            return found[0]
        if name.startswith("__hmf_"):
            body = _math_function(name, given, result)
        else:
            body = _tensor_function(re.sub(r"_\d+$", "", name), given)
        parameters = ", ".join(f"%p{number}: {kind}" for number, kind in enumerate(given))
        return f"func.func private @{name}({parameters}) -> {result} {{\n{body}\n}}"

    return _DECLARATION.sub(define, text)


def _tensor_function(kind: str, given: list[str]) -> str:
    if kind not in ("triton_cumsum", "triton_cumprod", "triton_sort", "triton_flip", "triton_gather"):
        raise NotExecuted(f"it calls {kind}, a library function without a form on the CPU")
    source = result = Tensor.of(given[0])
    element, axis, words = source.element, 1, source.words("in")
    if kind in ("triton_cumsum", "triton_cumprod"):
        wide = "f32" if element in ("f16", "bf16") else element  # the hardware's scans go through fp32
        is_float, is_sum = "f" in wide, kind == "triton_cumsum"
        words |= {
            "wide": wide,
            "start": ("0" if is_sum else "1") + (".0" if is_float else ""),
            "operation": ("add" if is_sum else "mul") + ("f" if is_float else "i"),
            "widen": "arith.extf" if wide != element else "arith.bitcast",
            "narrow": "arith.truncf" if wide != element else "arith.bitcast",
        }
        kind = "triton_scan"
    elif kind == "triton_sort":
        words["compare"] = "cmpf olt" if "f" in element else "cmpi slt"
    elif kind == "triton_gather":
        indices, axis = Tensor.of(given[1]), 2
        result = Tensor(indices.shape, element)
        words |= indices.words("index")
    shape = result.shape
    words |= {**result.words("out"), "rank": len(shape), "axis": axis, "axis_type": given[axis]}
    axes = [
        fill("axis", k=k, next=k + 1, size=size, behind=math.prod(shape[k + 1 :]))
        for k, size in enumerate(shape)
    ]
    return fill("rows", select="\n".join(axes), body=fill(kind, **words), **words)


def _math_function(name: str, given: list[str], result: str) -> str:
    """A function of the device library, `__hmf_tanf` (fp32), `__hmf_tanDh` (fp16) or `__hmf_powi`."""
    found = re.fullmatch(r"__hmf_(isinf|powi|\w+?)(f|Dh)?", name)
    if found is None or found[1] not in _PARTS:
        raise NotExecuted(f"it calls {name}, a library function without a form on the CPU")
    return fill(found[1], kind=result, given=given[0]) + f"\nreturn %y : {result}"


def runtime(kinds: tuple[str, ...], kernel: str) -> str:
    """The runtime with the entry. `kinds`: of each kernel argument "ptr" or its LLVM type; `kernel`: the text
    of the lowered kernel, which says what it needs."""
    head = [("gx", "i32"), ("gy", "i32"), ("gz", "i32"), ("end", "i64"), ("fill", "i32")]
    own = [(f"a{k}", "!llvm.ptr" if kind == "ptr" else kind) for k, kind in enumerate(kinds) if k > 1]
    loads = [fill("slot", name=name, at=8 * k, kind=kind) for k, (name, kind) in enumerate([*head, *own])]
    # A pointer becomes five: itself twice, offset, size and stride.
    given = [f"%a{k}, %a{k}, %c0, %c0, %c1" if kind == "ptr" else f"%a{k}" for k, kind in enumerate(kinds)]
    types = ["!llvm.ptr, !llvm.ptr, i64, i64, i64" if kind == "ptr" else kind for kind in kinds]
    texts = [fill("buffers"), fill("to_bf16") if "bf16" in kernel else ""]
    for operation, width in sorted(set(re.findall(r"@ascend_([su](?:div|rem))_i(\d+)\(", kernel))):
        instead = "%limit" if operation.endswith("div") else "%a"
        words = {"operation": operation, "kind": f"i{width}", "instead": instead}
        limit = 1 << int(width) - 1
        texts.append(fill(f"division_{operation[0]}", low=-limit, high=limit - 1, **words))
    words = {"loads": "\n  ".join(loads), "given": ", ".join(given), "types": ", ".join(types)}
    return "\n".join([*texts, fill("entry", entry=ENTRY, kernel=KERNEL, **words)])
