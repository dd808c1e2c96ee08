"""From linalg text to machine code: triton-ascend's own output, upstream MLIR's passes, Triton's own LLVM.

`bishengir-opt` runs the passes, libtriton generates an object, the C compiler links it, and without one
llvmlite loads it. No shell runs; libraries lie in a folder of the user's own, where no compile looks.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from triton_ascend_compat.offline.execute import library
from triton_ascend_compat.offline.execute.library import KERNEL, NotExecuted
from triton_ascend_compat.offline.hivm import HivmUnavailable

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
    "convert-math-to-llvm,convert-math-to-libm,convert-vector-to-llvm,"
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
    r"(?P<result>%\w+)(?::\d+)? = linalg\.reduce ins\((?P<ins>[^)]*)\) outs\((?P<outs>[^)]*)\) "
    r"dimensions = \[(?P<axis>\d+)\]"
)
_HALF_SUM = re.compile(
    _REDUCE.pattern + r"(?P<attributes>[^\n]*)\n\s*\((?P<in>%\w+): f16, (?P<init>%\w+): f16\) \{\n"
    r"\s*(?P<sum>%\w+) = arith\.(?P<operation>addf|mulf) [^\n]*: f16\n\s*linalg\.yield (?P=sum) : f16\n\s*\}"
)
_SIGNATURE = re.compile(
    r"func\.func @(?P<name>\S+?)\((?P<arguments>[^\n]*)\) attributes \{(?P<attributes>[^\n]*)\}"
)
_ARGUMENT = re.compile(r"%arg\d+: ([^,{]+?)(?: \{[^}]*\})?(?:, |$)")


class ExecutionUnavailable(HivmUnavailable):
    """Launches cannot be computed on this machine; the text says what is missing and how to get it."""


class Lowered(NamedTuple):
    """A kernel as machine code.

    Attributes:
        library: the file to load.
        kinds: of each of its arguments "ptr" or the LLVM type.
        follows_addresses: whether it reads addresses from memory and goes there.
    """

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
                "install it with: pip install 'triton-ascend-compat[hivm]'"
            )
        cc = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
        if cc is None:
            try:
                import llvmlite  # noqa: F401
            except ImportError:
                raise ExecutionUnavailable(
                    "computing launches needs a C compiler (cc, gcc or clang on PATH) or llvmlite; "
                    "install one, for example with: pip install llvmlite"
                ) from None
        return cls(opt, cc)


_lock = threading.Lock()


def lower(text: str, guarded: bool, tools: Tools, cache: Path) -> Lowered:
    """The machine code of a kernel's linalg text, from `cache` or newly made.

    Raises:
        NotExecuted: it cannot be lowered; the text says why.
    """
    kinds = _kinds(text)
    prepared = library.with_bodies(_prepare(text))
    follows = f"@{library.POINTER}" in prepared  # what it finds there is not its own to free
    pipeline = _TO_BUFFERS.format(deallocation=_FREE if guarded and not follows else _HOIST)
    lowered = Lowered(cache / f"{_key(prepared, pipeline, tools)}.so", kinds, follows)
    refusal = lowered.library.with_suffix(".txt")
    with _lock:
        if refusal.exists():
            raise NotExecuted(refusal.read_text(encoding="utf-8"))
        if not lowered.library.exists():
            try:
                _make(prepared, pipeline, kinds, tools, lowered.library)
            except NotExecuted as error:
                _put(refusal, str(error).encode())
                raise
    return lowered


# Text in.


def _kinds(text: str) -> tuple[str, ...]:
    found = _SIGNATURE.search(text)
    if found is None or "SyncBlockLockArgIdx = 0" not in text or "WorkspaceArgIdx = 1" not in text:
        raise NotExecuted("its linalg text has another calling convention than triton-ascend 3.2.0's")
    kinds = [kind.strip() for kind in _ARGUMENT.findall(found["arguments"])][:-6]
    return tuple("ptr" if kind.startswith("memref<?x") else kind for kind in kinds)


def _prepare(text: str) -> str:
    """The text without what has no meaning here, and with what upstream MLIR can lower."""
    if "llvm.inline_asm" in text or "tt.elementwise_inline_asm" in text:
        raise NotExecuted("it has inline assembly")
    text = _SIGNATURE.sub(rf"func.func @{KERNEL}(\g<arguments>)", _DROPPED.sub("", text), 1)
    text = re.sub(r" \{tt\.[^}]*\}", "", text)
    text = _HALF_SUM.sub(_widen_sum, text)
    text = _REDUCE.sub(lambda found: _start_from_first(found, text), text)
    elements: set[str] = set()

    def cast(found: re.Match[str]) -> str:
        elements.add(found[3])
        return (
            f"call @ascend_pointer_{found[3]}({found[1]}, {found[2]}) : (i64, index) -> memref<?x{found[3]}>"
        )

    text = re.sub(r"hivm\.hir\.pointer_cast\((%\w+)\) \[(%\w+)\] : memref<\?x(\w+)>", cast, text)
    declared = "".join(
        f"  func.func private @ascend_pointer_{element}(i64, index) -> memref<?x{element}>\n"
        for element in sorted(elements)
    )
    return text.replace("module {\n", "module {\n" + declared, 1)


def _widen_sum(found: re.Match[str]) -> str:
    """A sum of fp16 goes through fp32, as on the hardware."""
    name = found["result"]
    (value, values), (init, inits) = (part.split(" : ") for part in (found["ins"], found["outs"]))
    wide, wides = (kind.replace("f16", "f32") for kind in (values, inits))
    return f"""{name}_in = arith.extf {value} : {values} to {wide}
{name}_init = arith.extf {init} : {inits} to {wides}
{name}_sum = linalg.reduce ins({name}_in : {wide}) outs({name}_init : {wides}) dimensions = [{found["axis"]}]
({found["in"]}: f32, {found["init"]}: f32) {{
{found["sum"]} = arith.{found["operation"]} {found["in"]}, {found["init"]} : f32
linalg.yield {found["sum"]} : f32
}}
{name} = arith.truncf {name}_sum : {wides} to {inits}"""


def _start_from_first(found: re.Match[str], text: str) -> str:
    """A reduction by a function without a known neutral element starts from `tensor.empty` in the linalg
    text; here from the first element, and goes on with the rest."""
    outs = found["outs"].split(" : ")[0].split(", ")
    if not all(re.search(rf"{re.escape(out)} = tensor\.empty\(\)", text) for out in outs):
        return found[0]
    axis, name = int(found["axis"]), found["result"]
    names, kinds = (part.split(", ") for part in found["ins"].split(" : "))
    results = found["outs"].split(" : ")[1].split(", ")
    lines, firsts, rests, rest_kinds = [], [], [], []
    for number, (value, kind, result) in enumerate(zip(names, kinds, results)):
        *shape, element = kind[len("tensor<") : -1].split("x")
        ones = ", ".join("1" for _ in shape)
        zeros = ["0"] * len(shape)
        first = [*shape[:axis], "1", *shape[axis + 1 :]]
        rest = [*shape[:axis], str(int(shape[axis]) - 1), *shape[axis + 1 :]]
        rest_kind = f"tensor<{'x'.join([*rest, element])}>"
        firsts.append(f"{name}_first{number}")
        rests.append(f"{name}_rest{number}")
        rest_kinds.append(rest_kind)
        lines.append(
            f"{firsts[-1]} = tensor.extract_slice {value}[{', '.join(zeros)}] [{', '.join(first)}] [{ones}]"
            f" : {kind} to {result}"
        )
        zeros[axis] = "1"
        lines.append(
            f"{rests[-1]} = tensor.extract_slice {value}[{', '.join(zeros)}] [{', '.join(rest)}] [{ones}]"
            f" : {kind} to {rest_kind}"
        )
    many = f":{len(names)}" if len(names) > 1 else ""
    lines.append(
        f"{name}{many} = linalg.reduce ins({', '.join(rests)} : {', '.join(rest_kinds)}) "
        f"outs({', '.join(firsts)} : {', '.join(results)}) dimensions = [{axis}]"
    )
    return "\n".join(lines)


# Machine code out.


def _make(text: str, pipeline: str, kinds: tuple[str, ...], tools: Tools, to: Path) -> None:
    buffers = _opt(tools.opt, pipeline, text)
    # As linalg, a copy becomes loops that LLVM sees; else it is a call of another runtime's memrefCopy.
    buffers = re.sub(
        r"memref\.copy (%\S+), (%\S+) : (.*) to (memref<.*>)(?=\n)",
        r"linalg.copy ins(\1 : \3) outs(\2 : \4)",
        buffers,
    )
    kernel = _finish(_opt(tools.opt, _TO_LLVM, buffers))
    with tempfile.TemporaryDirectory(prefix="ascend-execute-") as folder:
        object_ = Path(folder) / "kernel.o"
        whole = f"module {{\n{kernel}\n{library.runtime(kinds, kernel)}\n}}\n"
        object_.write_bytes(_object(whole, Path(folder) / "kernel.mlir"))
        if tools.cc is not None:
            linked = Path(folder) / "kernel.so"
            command = [tools.cc, "-shared", "-nostartfiles", "-o", str(linked), str(object_), "-lm"]
            done = subprocess.run(
                [*command, "-Wl,-z,defs", "-lc"], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise NotExecuted(f"it does not link: {_error_line(done.stderr)}")
            object_ = linked
        _put(to, object_.read_bytes())


def _opt(opt: Path, pipeline: str, text: str) -> str:
    done = subprocess.run(
        [opt, f"--pass-pipeline={pipeline}", "-"], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotExecuted(f"it cannot be lowered for the CPU: {_error_line(done.stderr)}")
    return done.stdout


def _error_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    told = next(
        (line for line in lines if "error:" in line or "undefined" in line), (lines or ["no reason"])[0]
    )
    return told.split("error: ", 1)[-1][:300]


def _finish(text: str) -> str:
    """The body of the lowered module, if it is all LLVM, with divisions that cannot kill the process."""
    body = text[text.index("{\n") + 2 : text.rstrip().rindex("}")]
    left = re.search(r'^\s*(?:%[^=\n]* = )?"?((?!llvm\.)[a-z_]\w*\.[\w.]+)', body, re.MULTILINE)
    if left is not None:
        raise NotExecuted(f"its operation {left[1]} has no form on the CPU")
    if "llvm.inline_asm" in body:
        raise NotExecuted("it has inline assembly")

    def divide(found: re.Match[str]) -> str:
        operation, operands, width = found[1], found[2].strip(), found[3]
        return f"llvm.call @ascend_{operation}_i{width}({operands}) : (i{width}, i{width}) -> i{width}"

    body = re.sub(r"llvm\.([su](?:div|rem)) (%\w+, %\w+) +: i(\d+)", divide, body)
    for symbol in ("free", "aligned_alloc", "memset", *re.findall(r"_mlir_memref_to_llvm_\w+", body)):
        body = re.sub(rf"^ *llvm\.func @{symbol}\(.*\n", "", body, flags=re.MULTILINE)
    body = re.sub(
        r"^ *llvm\.func @ascend_pointer_(\w+)\(.*\n",
        lambda found: library.pointer(found[1]),
        body,
        flags=re.M,
    )
    return re.sub(rf"(llvm\.func @{KERNEL}\(.*?\)) attributes \{{.*?\}} \{{\n", r"\1 {\n", body)


def _object(text: str, file: Path) -> bytes:
    from triton._C.libtriton import ir, llvm

    file.write_text(text, encoding="utf-8")
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
    flags = ""
    with contextlib.suppress(OSError):
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    has_half = platform.machine() == "x86_64" and re.search(r"\bf16c\b", flags)
    return f"{platform.machine()}-unknown-linux-gnu", "+f16c,+avx" if has_half else ""


# The cache.


def _key(text: str, pipeline: str, tools: Tools) -> str:
    parts = [text, pipeline, _TO_LLVM, library.TEXT, str(tools.cc), *_machine(), *_identities(tools.opt)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _identities(opt: Path) -> tuple[str, ...]:
    """What tells these tools, and this room itself, from others."""
    import triton._C.libtriton as libtriton

    files = [opt, Path(libtriton.__file__), *sorted(Path(__file__).parent.glob("*.py"))]
    return tuple(f"{file}-{file.stat().st_size}-{file.stat().st_mtime_ns}" for file in files)


def private_folder(folder: Path) -> Path:
    """`folder`, made if need be.

    Raises:
        ExecutionUnavailable: others could put a library there, or it cannot be made.
    """
    try:
        folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise ExecutionUnavailable(f"no folder for lowered kernels: {error}") from error
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ExecutionUnavailable(
            f"{folder} must belong to you alone (mode 0700): to load a library is to run its code"
        )
    return folder


def _put(file: Path, content: bytes) -> None:
    """Write beside and rename into place: another process finds all of it or nothing."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix="new-")
    try:
        with os.fdopen(handle, "wb") as sink:
            sink.write(content)
        os.replace(name, file)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise
