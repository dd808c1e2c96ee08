"""What the tests share: making sources on any Triton generation, and the facts of the backend in use."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import triton
from kernels import add_one
from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

NPU = GPUTarget("npu", "Ascend910B2", 0)
CUDA = GPUTarget("cuda", 80, 32)

#: triton-ascend carries no cuda backend.
HAS_CUDA = "nvidia" in backends

#: The name of ASTSource's third argument: `constants` up to Triton 3.2, `constexprs` later.
THIRD = list(inspect.signature(ASTSource.__init__).parameters)[3]
#: Up to Triton 3.2 constants are kept by name and are not in the signature.
BY_NAME = THIRD == "constants"
#: Leading arguments of make_ir: `target` came with Triton 3.5.
MAKE_IR_TAKES_TARGET = "target" in inspect.signature(ASTSource.make_ir).parameters

_ascend = backends.get("ascend")
HAS_NPU = _ascend is not None
#: Whether the npu backend is the tests' stand-in rather than triton-ascend's own.
IS_STANDIN = _ascend is not None and _ascend.compiler.__name__ == "StandInAscendBackend"
SHAPE = os.environ.get("TRITON_NPU_STANDIN_SHAPE", "3.2.1") if IS_STANDIN else "3.2.0"

#: A key that no release has, misspelt the way people do.
UNKNOWN = "auto_blockfy_size"

_POINTERS = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}


def signature_for(fn: Any, constants: Mapping[str, Any]) -> dict[str, str]:
    """The signature that a frontend of this generation writes for `fn`."""
    types = {}
    for name in fn.arg_names:
        if name not in constants:
            types[name] = _POINTERS.get(name, "i32" if name == "xnumel" else "*fp32")
        elif not BY_NAME:
            types[name] = "constexpr"
    return types


def make_source(constants: Mapping[str, Any], fn: Any = add_one, cls: type = ASTSource) -> Any:
    return cls(fn, signature_for(fn, constants), dict(constants))


def compile_for(target: Any, constants: Mapping[str, Any], options: Any = None, fn: Any = add_one) -> Any:
    """What a frontend does: build the source, compile it. `constants` may hold leaked keys."""
    return triton.compile(make_source(constants, fn), target=target, options=options)


def compile_npu(constants: Mapping[str, Any], options: Any = None, fn: Any = add_one) -> Any:
    return compile_for(NPU, {"BLOCK": 128, **constants}, options, fn)


def make_ir(source: Any, target: Any = NPU, options: Any = None, keyword: bool = False) -> Any:
    """TTIR without `triton.compile`, the way frontends do that call `parse_options` and `make_ir`."""
    from triton._C.libtriton import ir

    backend = make_backend(target)
    parsed = backend.parse_options(dict(options or {}, **source.parse_options()))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    arguments = {
        "target": target,
        "options": parsed,
        "codegen_fns": codegen_implementation(backend, parsed),
        "module_map": backend.get_module_map(),
        "context": context,
    }
    if not MAKE_IR_TAKES_TARGET:
        del arguments["target"]
    return source.make_ir(**arguments) if keyword else source.make_ir(*arguments.values())


def codegen_implementation(backend: Any, parsed: Any) -> Any:
    takes_options = inspect.signature(backend.get_codegen_implementation).parameters
    return backend.get_codegen_implementation(*[parsed] if takes_options else [])


def outcome(call: Any, *args: Any, **kwargs: Any) -> tuple[type, str]:
    """The exception that `call` ends in, as (type, text)."""
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    raise AssertionError("no exception")


def raw_error(key: str) -> tuple[type, str]:
    """What Triton says of the leaked `key` without the shim: the words of Python's own `list.index`, which
    name no key from Python 3.14 on."""
    return outcome([].index, key)


def artefacts(kernel: Any) -> tuple[Any, ...]:
    """What two equal compiles have in common: hash, IR texts, metadata."""
    metadata = kernel.metadata._asdict()
    return kernel.hash, {name: str(text) for name, text in kernel.asm.items()}, metadata


@functools.cache
def standin_driver_class() -> Any:
    if IS_STANDIN:
        return backends["ascend"].driver
    path = Path(__file__).parents[1] / "standin/src/triton/backends/ascend/driver.py"
    return runpy.run_path(str(path))["StandInNPUDriver"]


@contextlib.contextmanager
def active_npu_driver() -> Iterator[Any]:
    """Make the stand-in's driver the active one, for code that compiles without naming a target.

    On triton-ascend too: its own driver needs an NPU.
    """
    from triton.runtime.driver import driver

    # The attribute behind the property of Triton 3.5 and later; the property would look for a device.
    name = "_active" if hasattr(driver, "_active") else "active"
    before = getattr(driver, name)
    driver.set_active(standin_driver_class()())
    try:
        yield driver.active
    finally:
        setattr(driver, name, before)
