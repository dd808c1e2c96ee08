"""From linalg text to machine code: triton-ascend's own output, upstream MLIR's passes, Triton's own LLVM.

`bishengir-opt` runs the passes, libtriton generates an object, the C compiler links it, and without one
llvmlite loads it. No shell runs; libraries lie in a folder of the user's own, where no compile looks.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from triton_ascend_compat.offline.execute import library, worker
from triton_ascend_compat.offline.execute.library import KERNEL, POINTER, NotExecuted, fill
from triton_ascend_compat.offline.hivm import INSTALL, HivmUnavailable

#: Up to buffers. Without buffer-loop-hoisting a loop of 100,000 turns keeps 100,000 buffers; but hoisted
#: buffers hide stale contents, so a guarded kernel frees its buffers in the loop instead.
_TO_BUFFERS = (
    "builtin.module(inline,execution-engine-convert-hfusion-to-upstream,"
    "func.func(convert-elementwise-to-linalg),empty-tensor-to-alloc-tensor,"
    "one-shot-bufferize{{allow-return-allocs-from-loops=true}},{deallocation})"
)
_HOIST = "func.func(buffer-loop-hoisting)"
_FREE = (
    "ownership-based-buffer-deallocation,canonicalize,buffer-deallocation-simplification,"
    "bufferization-lower-deallocations,canonicalize"
)
_TO_LLVM = (
    "builtin.module(func.func(convert-linalg-to-loops),convert-vector-to-scf,expand-strided-metadata,"
    "lower-affine,convert-scf-to-cf,math-legalize-to-f32,"
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32},arith-expand{include-bf16=true},"
    "convert-math-to-funcs,convert-math-to-llvm,convert-math-to-libm,convert-vector-to-llvm,"
    "finalize-memref-to-llvm{use-generic-functions=true},convert-func-to-llvm,convert-arith-to-llvm,"
    "convert-cf-to-llvm,convert-index-to-llvm,reconcile-unrealized-casts)"
)

#: Without meaning where programs run one after the other, or without an effect on memory.
_DROPPED = re.compile(
    r"^\s*(annotation\.mark|gpu\.barrier|hivm\.hir\.(sync_block_\w+|set_flag|wait_flag|pipe_barrier)"
    r"|(func\.)?call @triton_(print|assert)|func\.func private @triton_(print|assert)).*\n",
    re.MULTILINE,
)
_REDUCE = re.compile(
    r"(?P<name>%\w+)(?P<many>:\d+)? = linalg\.reduce ins\((?P<values>[^)]*) : (?P<kinds>[^)]*)\) "
    r"outs\((?P<inits>[^)]*) : (?P<results>[^)]*)\) dimensions = \[(?P<axis>\d+)\]"
)
_HALF_SUM = re.compile(
    _REDUCE.pattern + r"[^\n]*\n\s*\((?P<in>%\w+): f16, (?P<init>%\w+): f16\) \{\n"
    r"\s*(?P<sum>%\w+) = arith\.(?P<operation>addf|mulf) [^\n]*: f16\n\s*linalg\.yield (?P=sum) : f16\n\s*\}"
)
_SIGNATURE = re.compile(r"func\.func @\S+?\((?P<arguments>[^\n]*)\) attributes \{[^\n]*\}")
_ARGUMENT = re.compile(r"%arg\d+: ([^,{]+?)(?: \{[^}]*\})?(?:, |$)")
_COPY = re.compile(r"memref\.copy (%\S+), (%\S+) : (.*) to (memref<.*>)(?=\n)")
_POINTER_CAST = re.compile(r"hivm\.hir\.pointer_cast\((%\w+)\) \[(%\w+)\] : memref<\?x(\w+)>")


class ExecutionUnavailable(HivmUnavailable):
    """Launches cannot be computed on this machine; the text says what is missing and how to get it."""


class Lowered(NamedTuple):
    """A kernel as machine code: the `library` to load; of each argument its kind, "ptr" or the LLVM type; and
    whether it reads addresses from memory and goes there."""

    library: Path
    kinds: tuple[str, ...]
    follows_addresses: bool


class Tools(NamedTuple):
    """What lowering needs: the path of bishengir-opt, and that of a C compiler, or None for llvmlite."""

    opt: Path
    cc: str | None

    @classmethod
    def find(cls, folder: Path) -> Tools:
        """bishengir-opt in `folder`, and what links.

        Raises:
            ExecutionUnavailable: one is missing; the text says how to get it.
        """
        opt = folder / "bishengir-opt"
        if not opt.is_file():
            raise ExecutionUnavailable(
                f"computing launches needs bishengir-opt, which is not in {folder}; "
                f"install it with: {INSTALL}"
            )
        cc = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
        if cc is None and importlib.util.find_spec("llvmlite") is None:
            raise ExecutionUnavailable(
                "computing launches needs a C compiler (cc, gcc or clang on PATH) or llvmlite; "
                "install one, for example with: pip install llvmlite"
            )
        return cls(opt, cc)


_lock = threading.Lock()


def lower(text: str, guarded: bool, tools: Tools, cache: Path) -> Lowered:
    """The machine code of a kernel's linalg text, from `cache` or newly made.

    Raises:
        NotExecuted: it cannot be lowered; the text says why.
    """
    signature = _SIGNATURE.search(text)
    if signature is None or "SyncBlockLockArgIdx = 0" not in text or "WorkspaceArgIdx = 1" not in text:
        raise NotExecuted("its linalg text has another calling convention than triton-ascend 3.2.0's")
    kinds = tuple(
        "ptr" if kind.startswith("memref<?x") else kind for kind in _ARGUMENT.findall(signature["arguments"])
    )[:-6]  # the numbers of programs and the program's own ids are the runtime's
    prepared = library.with_bodies(_prepare(text))
    follows = f"@{POINTER}" in prepared  # what it finds there is not its own to free
    pipeline = _TO_BUFFERS.format(deallocation=_FREE if guarded and not follows else _HOIST)
    lowered = Lowered(cache / f"{_key(prepared, pipeline, tools)}.so", kinds, follows)
    with _lock:
        if not lowered.library.exists():
            _make(prepared, pipeline, lowered, tools)
    return lowered


# Text in.


def _prepare(text: str) -> str:
    """The text without what has no meaning here, and with what upstream MLIR can lower."""
    if "inline_asm" in text:  # LLVM would end this process
        raise NotExecuted("it has inline assembly")
    text = _SIGNATURE.sub(rf"func.func @{KERNEL}(\g<arguments>)", _DROPPED.sub("", text), count=1)
    text = _HALF_SUM.sub(_widen_sum, re.sub(r" \{tt\.[^}]*\}", "", text))
    text = _REDUCE.sub(lambda found: _start_from_first(found, text), text)
    elements = sorted({element for _, _, element in _POINTER_CAST.findall(text)})
    declared = [f"func.func private @{POINTER}{one}(i64, index) -> memref<?x{one}>\n" for one in elements]
    text = _POINTER_CAST.sub(rf"call @{POINTER}\3(\1, \2) : (i64, index) -> memref<?x\3>", text)
    return text.replace("module {\n", "module {\n" + "".join(declared), 1)


def _widen_sum(found: re.Match[str]) -> str:
    """A sum of fp16 goes through fp32, as on the hardware."""
    wide = {f"wide_{name}": found[name].replace("f16", "f32") for name in ("kinds", "results")}
    return fill("wide_sum", **found.groupdict(), **wide)


def _start_from_first(found: re.Match[str], text: str) -> str:
    """A reduction by a function without a known neutral element starts from `tensor.empty` in the linalg
    text; here from the first element, and goes on with the rest."""
    values, kinds, inits, results = (
        found[name].split(", ") for name in ("values", "kinds", "inits", "results")
    )
    if not all(f"{init} = tensor.empty()" in text for init in inits):
        return found[0]
    name, axis, lines, rests = found["name"], int(found["axis"]), [], []
    for number, (value, kind, result) in enumerate(zip(values, kinds, results)):
        shape, element = library.Tensor.of(kind)
        zeros, others = [0] * len(shape), _changed(shape, axis, shape[axis] - 1)
        rests.append(f"tensor<{others.replace(', ', 'x')}x{element}>")
        words = {"one": _changed(shape, axis, 1), "others": others, "steps": ", ".join("1" for _ in shape)}
        words |= {"start": _changed(zeros, axis, 0), "second": _changed(zeros, axis, 1)}
        words |= {"name": name, "value": value, "kind": kind, "result": result, "rest": rests[-1]}
        lines.append(fill("first_and_rest", number=number, **words))
    ins, outs = (", ".join(f"{name}_{part}{k}" for k in range(len(values))) for part in ("rest", "first"))
    lines.append(
        f"{name}{found['many'] or ''} = linalg.reduce ins({ins} : {', '.join(rests)}) "
        f"outs({outs} : {found['results']}) dimensions = [{axis}]"
    )
    return "\n".join(lines)


def _changed(numbers: Sequence[int], at: int, number: int) -> str:
    return ", ".join(str(number if k == at else other) for k, other in enumerate(numbers))


# Machine code out.


def _make(text: str, pipeline: str, lowered: Lowered, tools: Tools) -> None:
    for passes in (pipeline, _TO_LLVM):
        command = [str(tools.opt), f"--pass-pipeline={passes}", "-"]
        text = _run(command, "it cannot be lowered for the CPU", text)
        # As linalg, a copy becomes loops that LLVM sees; else it is a call of another runtime's memrefCopy.
        text = _COPY.sub(r"linalg.copy ins(\1 : \3) outs(\2 : \4)", text)
    kernel = _finish(text)
    # Beside, and renamed into place: another process finds all of it or nothing.
    with tempfile.TemporaryDirectory(prefix="making-", dir=lowered.library.parent) as folder:
        text_file, object_file, made = (Path(folder) / f"kernel.{end}" for end in ("mlir", "o", "so"))
        whole = f"module {{\n{kernel}\n{library.runtime(lowered.kinds, kernel)}\n}}\n"
        text_file.write_text(whole, encoding="utf-8")
        object_file.write_bytes(_object(text_file))
        if tools.cc is None:
            made = object_file
        else:
            options = ("-shared", "-nostdlib", "-lgcc")
            _run([tools.cc, "-o", str(made), str(object_file), *options], "it does not link")
            try:
                worker.load(str(made))
            except OSError as error:  # an undefined symbol
                raise NotExecuted(f"it does not link: {str(error).split(': ', 1)[-1]}") from error
        made.replace(lowered.library)


def _run(command: list[str], failure: str, given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        told = next((line for line in lines if "error:" in line or "undefined" in line), lines[0])
        raise NotExecuted(f"{failure}: {told.split('error: ', 1)[-1][:300]}")
    return done.stdout


def _finish(text: str) -> str:
    """The body of the lowered module, if it is all LLVM, with divisions that cannot kill the process."""
    body = text[text.index("{\n") + 2 : text.rstrip().rindex("}")]
    left = re.search(r'^\s*(?:%[^=\n]* = )?"?((?!llvm\.)[a-z_]\w*\.[\w.]+)', body, re.MULTILINE)
    if left is not None:  # libtriton would die of it
        raise NotExecuted(f"its operation {left[1]} has no form on the CPU")
    division = r"llvm\.([su](?:div|rem)) (%\w+, %\w+) +: (i\d+)"
    body = re.sub(division, r"llvm.call @ascend_\1_\3(\2) : (\3, \3) -> \3", body)
    ours = r"^ *llvm\.func @(?:free|malloc|memset|_mlir_memref_to_llvm_\w+)\(.*\n"
    body = re.sub(ours, "", body, flags=re.MULTILINE)
    pointers = rf"^ *llvm\.func @{POINTER}(\w+)\(.*\n"
    return re.sub(pointers, lambda found: fill("pointer", element=found[1]), body, flags=re.MULTILINE)


def _object(file: Path) -> bytes:
    from triton._C.libtriton import ir, llvm

    context = ir.context()
    ir.load_dialects(context)
    try:
        module = ir.parse_mlir_module(str(file), context)
    except RuntimeError as error:
        raise NotExecuted(f"its lowered text is not valid: {error}") from error
    module.context = context  # else it is collected first, and LLVM reads freed memory
    llvm.init_targets()
    translated = llvm.to_module(module, llvm.context())
    triple, features = _machine()
    llvm.attach_datalayout(translated, triple, "", features)
    llvm.optimize_module(translated, llvm.OPTIMIZE_O2)
    return bytes(llvm.translate_to_asm(str(translated), triple, "", features, [], False, True))


@functools.cache
def _machine() -> tuple[str, str]:
    """LLVM's triple and features of this machine."""
    cpu = Path("/proc/cpuinfo")
    has_half = cpu.exists() and re.search(r"\bf16c\b", cpu.read_text(encoding="utf-8"))
    return f"{platform.machine()}-unknown-linux-gnu", "+f16c,+avx" if has_half else ""


# The cache.


def _key(text: str, pipeline: str, tools: Tools) -> str:
    parts = [text, pipeline, _TO_LLVM, library.TEXT, *_machine(), *_identities(tools)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _identities(tools: Tools) -> tuple[str, ...]:
    """What tells these tools, and this room itself, from others."""
    import triton._C.libtriton as libtriton

    compiler = [Path(tools.cc).resolve()] if tools.cc is not None else []
    own = sorted(Path(__file__).parent.glob("*.py"))
    files = [tools.opt, *compiler, Path(libtriton.__file__), *own]
    return tuple(f"{file}-{file.stat().st_size}-{file.stat().st_mtime_ns}" for file in files)


def private_folder(folder: Path) -> Path:
    """`folder`, made if need be.

    Raises:
        ExecutionUnavailable: others could put a library there, or it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise ExecutionUnavailable(f"no folder for lowered kernels: {error}") from error
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ExecutionUnavailable(
            f"{folder} must belong to you alone (mode 0700): to load a library is to run its code"
        )
    return folder
