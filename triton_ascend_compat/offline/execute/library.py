"""What the lowered code calls: bodies for the functions that linalg only declares, and a small runtime.

Everything is text: bodies in upstream MLIR, inlined by the pipeline, and the runtime in the LLVM dialect,
appended after it, so that LLVM optimises both together with the kernel and no C file is compiled.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

#: The entry of every library: the argument slots, the grid, the first program and the one after the last
#: (numbered with x fastest), and the byte that new buffers are filled with (negative: none).
ENTRY = "ascend_launch"

#: The kernel's own name in the library, so that no kernel can be called `free`.
KERNEL = "ascend_kernel"

#: What functions are called that make a memref of an address; the element type follows.
POINTER = "ascend_pointer_"

_DECLARATION = re.compile(r"func\.func private @(\w+)\(([^)]*)\)(?: -> (\S+))?")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(\w+)>")


class NotExecuted(Exception):
    """A kernel, or one of its launches, cannot be computed here; the text says why."""


class _Tensor(NamedTuple):
    shape: tuple[int, ...]
    element: str

    @classmethod
    def of(cls, text: str) -> _Tensor:
        found = _TENSOR.fullmatch(text)
        if found is None:
            raise NotExecuted(f"a tensor of type {text} has no form on the CPU")
        return cls(tuple(int(size) for size in found[1].split("x")[:-1]), found[2])

    @property
    def memref(self) -> str:
        return "memref<" + "".join(f"{size}x" for size in self.shape) + self.element + ">"

    @property
    def flat(self) -> str:
        return f"memref<{math.prod(self.shape)}x{self.element}>"

    def flatten(self, name: str) -> str:
        """An operation that views the buffer `name` as one row, called `name`_flat."""
        if len(self.shape) == 1:
            return f"%{name}_flat = memref.cast %{name} : {self.memref} to {self.flat}"
        dims = ", ".join(str(number) for number in range(len(self.shape)))
        return f"%{name}_flat = memref.collapse_shape %{name} [[{dims}]] : {self.memref} into {self.flat}"


def with_bodies(text: str) -> str:
    """The linalg text with a body for each function that it only declares.

    Raises:
        NotExecuted: it declares one that has no form on the CPU.
    """
    libm: dict[str, str] = {}

    def define(found: re.Match[str]) -> str:
        name, arguments, result = found[1], found[2].split(", "), found[3] or ""
        if name.startswith(POINTER):
            return found[0]
        if name.startswith("__hmf_"):
            body = _math_function(name, arguments, result, libm)
        else:
            kind = re.sub(r"_\d+$", "", name)
            make = {
                "triton_cumsum": _scan,
                "triton_cumprod": _scan,
                "triton_sort": _sort,
                "triton_flip": _flip,
                "triton_gather": _gather,
            }.get(kind)
            if make is None:
                raise NotExecuted(f"it calls {name}, a library function without a form on the CPU")
            body = make(kind, _Tensor.of(arguments[0]), arguments)
        parameters = ", ".join(f"%p{number}: {kind}" for number, kind in enumerate(arguments))
        return f"func.func private @{name}({parameters}) -> {result} {{\n{body}\n}}"

    bodies = re.sub(_DECLARATION.pattern + r"(?: attributes \{.*\})?(?=\n)", define, text)
    return bodies.replace("module {\n", "module {\n" + "".join(libm.values()), 1)


# Functions over tensors. `%o` and `%i` count the rows across the axis, `%k` goes along it.


def _rows(tensor: _Tensor, axis: str, copies: str, body: str) -> str:
    """A function body: `body` for each row along the axis `%p1` (of type `axis`); `%n` elements, `%inner`
    apart, from `%base`. `%in_flat` is the first parameter and `%out_flat` the result."""
    rank, result = len(tensor.shape), tensor.memref.replace("memref", "tensor")
    lines = [
        f"%axis = arith.index_cast %p1 : {axis} to index",
        "%c0 = arith.constant 0 : index",
        "%c1 = arith.constant 1 : index",
        f"%total = arith.constant {math.prod(tensor.shape)} : index",
        "%n_0 = arith.constant 1 : index",
        "%inner_0 = arith.constant 1 : index",
    ]
    for number, size in enumerate(tensor.shape):
        inner = math.prod(tensor.shape[number + 1 :])
        lines += [
            f"%d{number} = arith.constant {number} : index",
            f"%size{number} = arith.constant {size} : index",
            f"%behind{number} = arith.constant {inner} : index",
            f"%is{number} = arith.cmpi eq, %axis, %d{number} : index",
            f"%n_{number + 1} = arith.select %is{number}, %size{number}, %n_{number} : index",
            f"%inner_{number + 1} = arith.select %is{number}, %behind{number}, %inner_{number} : index",
        ]
    return "\n".join(
        [
            *lines,
            f"%n = arith.maxsi %n_{rank}, %c1 : index",
            f"%inner = arith.maxsi %inner_{rank}, %c1 : index",
            "%span = arith.muli %n, %inner : index",
            "%last = arith.subi %n, %c1 : index",
            f"%in = bufferization.to_memref %p0 : {tensor.memref}",
            f"%out = memref.alloc() : {tensor.memref}",
            tensor.flatten("in"),
            tensor.flatten("out"),
            copies,
            "scf.for %o = %c0 to %total step %span {",
            "scf.for %i = %c0 to %inner step %c1 {",
            "%base = arith.addi %o, %i : index",
            body,
            "} }",
            f"%result = bufferization.to_tensor %out restrict writable : {tensor.memref}",
            f"return %result : {result}",
        ]
    )


def _at(name: str, index: str) -> str:
    """Operations that compute `%at_NAME`, where element `index` of the row lies."""
    scaled = f"%off_{name} = arith.muli {index}, %inner : index"
    return f"{scaled}\n%at_{name} = arith.addi %base, %off_{name} : index"


def _scan(kind: str, tensor: _Tensor, arguments: list[str]) -> str:
    element = tensor.element
    wide = "f32" if element in ("f16", "bf16") else element  # the hardware's scans go through fp32
    float_ = wide.startswith("f")
    operation = ("add" if kind == "triton_cumsum" else "mul") + ("f" if float_ else "i")
    start = ("0" if kind == "triton_cumsum" else "1") + (".0" if float_ else "")
    widen = f"%wide = arith.extf %x : {element} to {wide}" if wide != element else ""
    narrow = f"%y = arith.truncf %next : {wide} to {element}" if wide != element else ""
    result = "%y" if narrow else "%next"
    body = f"""%start = arith.constant {start} : {wide}
%end = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %start) -> ({wide}) {{
%back = arith.subi %last, %k : index
%where = arith.select %p2, %back, %k : index
{_at("w", "%where")}
%x = memref.load %in_flat[%at_w] : {tensor.flat}
{widen}
%next = arith.{operation} %sum, {"%wide" if widen else "%x"} : {wide}
{narrow}
memref.store {result}, %out_flat[%at_w] : {tensor.flat}
scf.yield %next : {wide}
}}"""
    return _rows(tensor, arguments[1], "", body)


def _sort(_: str, tensor: _Tensor, arguments: list[str]) -> str:
    element = tensor.element
    compare = "arith.cmpf olt" if "f" in element else "arith.cmpi slt"
    body = f"""scf.for %k = %c0 to %n step %c1 {{
%after = arith.addi %k, %c1 : index
{_at("k", "%k")}
scf.for %j = %after to %n step %c1 {{
{_at("j", "%j")}
%a = memref.load %out_flat[%at_k] : {tensor.flat}
%b = memref.load %out_flat[%at_j] : {tensor.flat}
%up = {compare}, %b, %a : {element}
%down = {compare}, %a, %b : {element}
%swap = arith.select %p2, %down, %up : i1
%first = arith.select %swap, %b, %a : {element}
%second = arith.select %swap, %a, %b : {element}
memref.store %first, %out_flat[%at_k] : {tensor.flat}
memref.store %second, %out_flat[%at_j] : {tensor.flat}
}} }}"""
    copies = f"memref.copy %in, %out : {tensor.memref} to {tensor.memref}"
    return _rows(tensor, arguments[1], copies, body)


def _flip(_: str, tensor: _Tensor, arguments: list[str]) -> str:
    body = f"""scf.for %k = %c0 to %n step %c1 {{
%back = arith.subi %last, %k : index
{_at("k", "%k")}
{_at("b", "%back")}
%x = memref.load %in_flat[%at_b] : {tensor.flat}
memref.store %x, %out_flat[%at_k] : {tensor.flat}
}}"""
    return _rows(tensor, arguments[1], "", body)


def _gather(_: str, tensor: _Tensor, arguments: list[str]) -> str:
    """Over the rows of the result, which is as long as the indices; the source's rows may be longer."""
    indices = _Tensor.of(arguments[1])
    if tuple(len(shape) for shape in (indices.shape, tensor.shape)) != (len(tensor.shape),) * 2:
        raise NotExecuted("its tl.gather has indices of another rank than its source")
    result = _Tensor(indices.shape, tensor.element)
    sizes = "\n".join(
        f"%m_{number + 1} = arith.select %is{number}, %long{number}, %m_{number} : index"
        for number in range(len(tensor.shape))
    )
    longs = "\n".join(f"%long{k} = arith.constant {size} : index" for k, size in enumerate(tensor.shape))
    body = f"""%row = arith.divsi %o, %span : index
{longs}
%m_0 = arith.constant 1 : index
{sizes}
%long_span = arith.muli %m_{len(tensor.shape)}, %inner : index
%long_o = arith.muli %row, %long_span : index
%long_base = arith.addi %long_o, %i : index
scf.for %k = %c0 to %n step %c1 {{
{_at("k", "%k")}
%which = memref.load %indices_flat[%at_k] : {indices.flat}
%index = arith.index_cast %which : {indices.element} to index
%off_s = arith.muli %index, %inner : index
%at_s = arith.addi %long_base, %off_s : index
%x = memref.load %source_flat[%at_s] : {tensor.flat}
memref.store %x, %out_flat[%at_k] : {result.flat}
}}"""
    copies = f"""%source = bufferization.to_memref %p0 : {tensor.memref}
%indices = bufferization.to_memref %p1 : {indices.memref}
{tensor.flatten("source")}
{indices.flatten("indices")}"""
    text = _rows(result, arguments[2], copies, body)
    text = text.replace("%axis = arith.index_cast %p1", "%axis = arith.index_cast %p2")
    return re.sub(r"%in(_flat)? = .*\n", "", text)


# The device library: libm computes it in fp32.

_BY_COMPARISON = {
    "recip": "%one = arith.constant 1.0 : f32\n%y = arith.divf %one, %w0 : f32",
    "relu": "%zero = arith.constant 0.0 : f32\n%y = arith.maxnumf %w0, %zero : f32",
    "isnan": "%y = arith.cmpf uno, %w0, %w0 : f32",
    "isinf": "%a = math.absf %w0 : f32\n%i = arith.constant 0x7F800000 : f32\n"
    "%y = arith.cmpf oeq, %a, %i : f32",
    "ldexp": "%two = arith.constant 2.0 : f32\n%e = math.powf %two, %w1 : f32\n%y = arith.mulf %w0, %e : f32",
    "ilogb": "%n = call @ilogbf(%w0) : (f32) -> i32\n%y = arith.sitofp %n : i32 to f32",
}
_IN_LIBM = ("atan", "log1p", "pow", "round", "tan", "tanh", "acos", "asin", "sinh", "cosh", "acosh", "asinh")


def _math_function(name: str, arguments: list[str], result: str, libm: dict[str, str]) -> str:
    if name == "__hmf_powi":
        return f"%y = math.ipowi %p0, %p1 : {result}\nreturn %y : {result}"
    found = re.fullmatch(r"__hmf_(\w+?)(?:f|Dh)?", name)
    kind = found[1] if found is not None else name
    if kind not in _BY_COMPARISON and kind not in _IN_LIBM:
        raise NotExecuted(f"it calls {name}, a library function without a form on the CPU")
    lines = [
        f"%w{number} = arith.extf %p{number} : {element} to f32"
        if element != "f32"
        else f"%w{number} = arith.bitcast %p{number} : f32 to f32"
        for number, element in enumerate(arguments)
    ]
    if kind in _BY_COMPARISON:
        lines.append(_BY_COMPARISON[kind])
    else:
        wide = ", ".join(f"%w{number}" for number in range(len(arguments)))
        kinds = ", ".join("f32" for _ in arguments)
        lines.append(f"%y = call @{kind}f({wide}) : ({kinds}) -> f32")
        libm[kind] = f"func.func private @{kind}f({kinds}) -> f32\n"
    if kind == "ilogb":
        libm[kind] = "func.func private @ilogbf(f32) -> i32\n"
    if result in ("f16", "bf16"):
        lines.append(f"%z = arith.truncf %y : f32 to {result}")
    return "\n".join([*lines, f"return {'%z' if result in ('f16', 'bf16') else '%y'} : {result}"])


# The runtime.

#: Buffers are a ring behind a header of 64 bytes (next, previous), so that what a program leaves is freed.
_BUFFERS = """
llvm.mlir.global internal @ascend_ring() : !llvm.array<2 x ptr> {
  %u = llvm.mlir.zero : !llvm.array<2 x ptr>
  llvm.return %u : !llvm.array<2 x ptr>
}
llvm.mlir.global internal @ascend_fill(-1 : i32) : i32
llvm.func @aligned_alloc(i64, i64) -> !llvm.ptr
llvm.func @free(!llvm.ptr)
llvm.func @memset(!llvm.ptr, i32, i64) -> !llvm.ptr
llvm.func internal @ascend_alloc(%size: i64) -> !llvm.ptr {
  %c64 = llvm.mlir.constant(64 : i64) : i64
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %none = llvm.mlir.constant(0 : i32) : i32
  %ring = llvm.mlir.addressof @ascend_ring : !llvm.ptr
  %whole = llvm.add %size, %c64 : i64
  %new = llvm.call @aligned_alloc(%c64, %whole) : (i64, i64) -> !llvm.ptr
  %next = llvm.load %ring : !llvm.ptr -> !llvm.ptr
  llvm.store %next, %new : !llvm.ptr, !llvm.ptr
  %back = llvm.getelementptr %new[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %ring, %back : !llvm.ptr, !llvm.ptr
  llvm.store %new, %ring : !llvm.ptr, !llvm.ptr
  %next_back = llvm.getelementptr %next[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %new, %next_back : !llvm.ptr, !llvm.ptr
  %data = llvm.getelementptr %new[64] : (!llvm.ptr) -> !llvm.ptr, i8
  %fill_at = llvm.mlir.addressof @ascend_fill : !llvm.ptr
  %fill = llvm.load %fill_at : !llvm.ptr -> i32
  %off = llvm.icmp "slt" %fill, %none : i32
  %count = llvm.select %off, %c0, %size : i1, i64
  %same = llvm.call @memset(%data, %fill, %count) : (!llvm.ptr, i32, i64) -> !llvm.ptr
  llvm.return %data : !llvm.ptr
}
llvm.func internal @_mlir_memref_to_llvm_alloc(%size: i64) -> !llvm.ptr {
  %data = llvm.call @ascend_alloc(%size) : (i64) -> !llvm.ptr
  llvm.return %data : !llvm.ptr
}
llvm.func internal @_mlir_memref_to_llvm_aligned_alloc(%by: i64, %size: i64) -> !llvm.ptr {
  %data = llvm.call @ascend_alloc(%size) : (i64) -> !llvm.ptr
  llvm.return %data : !llvm.ptr
}
llvm.func internal @_mlir_memref_to_llvm_free(%data: !llvm.ptr) {
  %old = llvm.getelementptr %data[-64] : (!llvm.ptr) -> !llvm.ptr, i8
  %back = llvm.getelementptr %old[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %next = llvm.load %old : !llvm.ptr -> !llvm.ptr
  %before = llvm.load %back : !llvm.ptr -> !llvm.ptr
  llvm.store %next, %before : !llvm.ptr, !llvm.ptr
  %next_back = llvm.getelementptr %next[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %before, %next_back : !llvm.ptr, !llvm.ptr
  llvm.call @free(%old) : (!llvm.ptr) -> ()
  llvm.return
}
llvm.func internal @ascend_free_all() {
  %ring = llvm.mlir.addressof @ascend_ring : !llvm.ptr
  llvm.br ^head
^head:
  %first = llvm.load %ring : !llvm.ptr -> !llvm.ptr
  %empty = llvm.icmp "eq" %first, %ring : !llvm.ptr
  llvm.cond_br %empty, ^done, ^one
^one:
  %data = llvm.getelementptr %first[64] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.call @_mlir_memref_to_llvm_free(%data) : (!llvm.ptr) -> ()
  llvm.br ^head
^done:
  llvm.return
}
"""

#: gcc 12's libgcc has no conversion from fp32 to bf16.
_TO_BF16 = """
llvm.func internal @__truncsfbf2(%x: f32) -> bf16 {
  %bits = llvm.bitcast %x : f32 to i32
  %c16 = llvm.mlir.constant(16 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %half = llvm.mlir.constant(32767 : i32) : i32
  %nan = llvm.mlir.constant(32704 : i32) : i32
  %high = llvm.lshr %bits, %c16 : i32
  %odd = llvm.and %high, %c1 : i32
  %up = llvm.add %half, %odd : i32
  %sum = llvm.add %bits, %up : i32
  %rounded = llvm.lshr %sum, %c16 : i32
  %is_nan = llvm.fcmp "uno" %x, %x : f32
  %kept = llvm.select %is_nan, %nan, %rounded : i1, i32
  %short = llvm.trunc %kept : i32 to i16
  %y = llvm.bitcast %short : i16 to bf16
  llvm.return %y : bf16
}
"""


def division(operation: str, width: int) -> str:
    """A function that divides as the hardware does, where C has no answer: `operation` is sdiv, srem, udiv
    or urem. x/0 saturates by the sign of x, 0/0 is 0, x%0 is x, MIN/-1 is MIN; unsigned x/0 is all ones."""
    kind = f"i{width}"
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    signed, is_div = operation[0] == "s", operation.endswith("div")
    lines = [
        f"%zero = llvm.mlir.constant(0 : {kind}) : {kind}",
        f"%one = llvm.mlir.constant(1 : {kind}) : {kind}",
    ]
    lines += [f"%none = llvm.mlir.constant(-1 : {kind}) : {kind}"]
    lines += [f'%by_zero = llvm.icmp "eq" %b, %zero : {kind}']
    if signed:
        lines += [
            f"%low = llvm.mlir.constant({low} : {kind}) : {kind}",
            f"%high = llvm.mlir.constant({high} : {kind}) : {kind}",
            f'%negates = llvm.icmp "eq" %b, %none : {kind}',
            f'%lowest = llvm.icmp "eq" %a, %low : {kind}',
            "%over = llvm.and %negates, %lowest : i1",
            "%bad = llvm.or %by_zero, %over : i1",
            f'%positive = llvm.icmp "sgt" %a, %zero : {kind}',
            f'%negative = llvm.icmp "slt" %a, %zero : {kind}',
            f"%bottom = llvm.select %negative, %low, %zero : i1, {kind}",
            f"%limit = llvm.select %positive, %high, %bottom : i1, {kind}",
        ]
    lines += [
        f"%safe = llvm.select {'%bad' if signed else '%by_zero'}, %one, %b : i1, {kind}",
        f"%plain = llvm.{operation} %a, %safe : {kind}",
        f"%r = llvm.select %by_zero, {('%limit' if signed else '%none') if is_div else '%a'}, %plain"
        f" : i1, {kind}",
        f"llvm.return %r : {kind}",
    ]
    return (
        f"llvm.func internal @ascend_{operation}_{kind}(%a: {kind}, %b: {kind}) -> {kind} {{\n"
        + "\n".join([*lines, "}\n"])
    )


def runtime(kinds: list[str], kernel: str) -> str:
    """The runtime with the entry. `kinds`: of each kernel argument "ptr" or its LLVM type; `kernel` is the
    text of the lowered kernel, which says whether it converts to bf16 and how it divides."""
    lines, given = [], []
    slot = 0

    def load(name: str, kind: str) -> str:
        nonlocal slot
        lines.append(f"%at_{name} = llvm.getelementptr %slots[{8 * slot}] : (!llvm.ptr) -> !llvm.ptr, i8")
        lines.append(f"%{name} = llvm.load %at_{name} : !llvm.ptr -> {kind}")
        slot += 1
        return f"%{name}"

    types: list[str] = []
    for number, kind in enumerate(kinds):
        if kind == "ptr":
            pointer, size = load(f"p{number}", "!llvm.ptr"), load(f"n{number}", "i64")
            given += [pointer, pointer, "%c0", size, "%c1"]
            types += ["!llvm.ptr", "!llvm.ptr", "i64", "i64", "i64"]
        else:
            given.append(load(f"a{number}", kind))
            types.append(kind)
    given += ["%gx", "%gy", "%gz", "%x", "%y", "%z"]
    types += ["i32"] * 6
    loads = "\n  ".join(lines)
    entry = f"""
llvm.func @{ENTRY}(%slots: !llvm.ptr, %gx: i32, %gy: i32, %gz: i32, %first: i64, %end: i64, %fill: i32) {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %fill_at = llvm.mlir.addressof @ascend_fill : !llvm.ptr
  llvm.store %fill, %fill_at : i32, !llvm.ptr
  %ring = llvm.mlir.addressof @ascend_ring : !llvm.ptr
  %back = llvm.getelementptr %ring[8] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %ring, %ring : !llvm.ptr, !llvm.ptr
  llvm.store %ring, %back : !llvm.ptr, !llvm.ptr
  {loads}
  %wide = llvm.sext %gx : i32 to i64
  %high = llvm.sext %gy : i32 to i64
  llvm.br ^head(%first : i64)
^head(%id: i64):
  %more = llvm.icmp "slt" %id, %end : i64
  llvm.cond_br %more, ^program, ^done
^program:
  %lx = llvm.srem %id, %wide : i64
  %rest = llvm.sdiv %id, %wide : i64
  %ly = llvm.srem %rest, %high : i64
  %lz = llvm.sdiv %rest, %high : i64
  %x = llvm.trunc %lx : i64 to i32
  %y = llvm.trunc %ly : i64 to i32
  %z = llvm.trunc %lz : i64 to i32
  llvm.call @{KERNEL}({", ".join(given)}) : ({", ".join(types)}) -> ()
  llvm.call @ascend_free_all() : () -> ()
  %next = llvm.add %id, %c1 : i64
  llvm.br ^head(%next : i64)
^done:
  llvm.return
}}
"""
    divisions = sorted(set(re.findall(r"@ascend_([su](?:div|rem))_i(\d+)\(", kernel)))
    return (
        _BUFFERS
        + (_TO_BF16 if "bf16" in kernel else "")
        + "".join(division(operation, int(width)) for operation, width in divisions)
        + entry
    )


def pointer_cast(element: str) -> str:
    """A function that makes a memref of an address that was loaded from memory."""
    kind = "!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>"
    return f"""llvm.func internal @ascend_pointer_{element}(%address: i64, %size: i64) -> {kind} {{
  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64
  %p = llvm.inttoptr %address : i64 to !llvm.ptr
  %0 = llvm.mlir.undef : {kind}
  %1 = llvm.insertvalue %p, %0[0] : {kind}
  %2 = llvm.insertvalue %p, %1[1] : {kind}
  %3 = llvm.insertvalue %c0, %2[2] : {kind}
  %4 = llvm.insertvalue %size, %3[3, 0] : {kind}
  %5 = llvm.insertvalue %c1, %4[4, 0] : {kind}
  llvm.return %5 : {kind}
}}
"""
