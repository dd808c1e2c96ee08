"""Everything that differs between Triton generations, found by probing, never by comparing versions.

The facts behind it were read from the wheels of triton 3.2.0, 3.3.1, 3.4.0, 3.5.1 and 3.6-3.9,
triton-ascend 3.2.0, and the public branches release/3.2.1 and main of triton-ascend.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from triton_ascend_compat.errors import CompatError

NPU = "npu"

#: The module that defines `ast_to_ttir`.
CODE_GENERATOR = "triton.compiler.code_generator"

#: How far up from `parse_options` or `ast_to_ttir` the caller that knows the target may stand:
#: compile -> make_ir -> ast_to_ttir, with room for one wrapper of somebody else's in each gap.
_FRAMES_TO_LOOK_AT = 6


class Generation:
    """The shape of the installed Triton. (No dataclass: making one costs the start-up path a millisecond.)

    Attributes:
        source_class: `triton.compiler.compiler.ASTSource`.
        constants_parameter: the name of its third argument: `constants` up to Triton 3.2, `constexprs`
            from 3.3 on.
        resolves_names_early: whether `ASTSource.__init__` itself looks string keys up among the kernel
            parameters (from 3.3 on), rather than the code generator.
    """

    def __init__(self, source_class: Any, constants_parameter: str, resolves_names_early: bool) -> None:
        self.source_class = source_class
        self.constants_parameter = constants_parameter
        self.resolves_names_early = resolves_names_early

    @property
    def label(self) -> str:
        """For messages: what distinguishes this generation."""
        where = "ASTSource.__init__" if self.resolves_names_early else "the code generator"
        return f"ASTSource({self.constants_parameter}=…), names resolved in {where}"


def detect() -> Generation:
    """The generation of the Triton that is imported.

    Raises:
        CompatError: its front end has a shape that the shim does not know; says which shape it expects.
    """
    try:
        from triton.compiler.compiler import ASTSource
    except Exception as error:
        raise CompatError(
            f"expected triton.compiler.compiler.ASTSource, found: {error!r}{overwritten_installation()}"
        ) from error
    name = _constants_parameter(ASTSource)
    for method in ("hash", "make_ir", "parse_options"):
        if not callable(getattr(ASTSource, method, None)):
            raise CompatError(f"expected a method ASTSource.{method}, found none")
    code_generator = sys.modules.get(CODE_GENERATOR)
    if code_generator is not None and not callable(getattr(code_generator, "ast_to_ttir", None)):
        raise CompatError(f"expected {CODE_GENERATOR}.ast_to_ttir, found none")
    return Generation(ASTSource, name, resolves_names_early=name == "constexprs")


class _ProbeKernel:
    """Stands in for a JITFunction: `ASTSource` reads nothing else of it before it compiles."""

    __name__ = "probe"
    arg_names = ("x",)
    cache_key = "probe"


def _constants_parameter(source_class: Any) -> str:
    """The name of the third argument of `ASTSource`."""
    parameters = inspect.signature(source_class.__init__).parameters
    for name in ("constants", "constexprs"):
        if list(parameters) == ["self", "fn", "signature", name, "attrs"]:
            return name
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            # Somebody's wrapper hides the signature: whether a name is accepted still shows.
            try:
                source_class(fn=_ProbeKernel(), signature={"x": "*fp32"}, attrs=None, **{name: {}})
            except TypeError:
                continue
            return name
    raise CompatError(
        "expected ASTSource(fn, signature, constants|constexprs, attrs), found "
        f"ASTSource({', '.join(list(parameters)[1:])})"
    )


def ast_to_ttir_bindings() -> list[tuple[Any, str]]:
    """The modules that bind `ast_to_ttir`, as (module, name): the code generator's own, and, up to
    Triton 3.3, the compiler module's, which `ASTSource.make_ir` looks up. None while the code generator is
    not imported: Triton 3.4 and later import it (100 ms) when the first source is compiled."""
    code_generator = sys.modules.get(CODE_GENERATOR)
    if code_generator is None:
        return []
    compiler = sys.modules["triton.compiler.compiler"]
    bindings = [(code_generator, "ast_to_ttir")]
    if getattr(compiler, "ast_to_ttir", None) is code_generator.ast_to_ttir:
        bindings.append((compiler, "ast_to_ttir"))
    return bindings


def async_key_bindings() -> list[tuple[Any, str]]:
    """The name, as (module, name), by which JITFunction keys the compiles that it leaves to an executor
    (Triton 3.5 and later). `compile` has its own binding of the same function."""
    jit = sys.modules.get("triton.runtime.jit")
    return [(jit, "get_cache_key")] if hasattr(jit, "get_cache_key") else []


@functools.cache
def _any_npu_target() -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget(NPU, "", 0)


def npu_backend_class() -> type | None:
    """The class of the backend that compiles for target npu; None where there is none.

    Asked from Triton's own registry: triton-ascend 3.2.0 loads its backend module twice, and the copy
    that `triton.backends.ascend.compiler` names is never used by `triton.compile`.
    """
    from triton.backends import backends

    for backend in backends.values():
        if backend.compiler.supports_target(_any_npu_target()):
            return backend.compiler  # type: ignore[no-any-return]
    return None


def visible_caller(frame: FrameType | None) -> tuple[Any, Mapping[str, Any]]:
    """The target (a GPUTarget) that the nearest caller, from `frame` up, compiles for, and the options it was
    given; None and an empty mapping where no caller shows a target.

    No argument carries the target to `ASTSource.parse_options`, and a class method is all that references
    taken before activation share. But whoever calls it has just made a backend for the target: Triton's
    `compile` in every generation, torch_npu's and triton-runner's copies of it, all keep them in the local
    variables `backend` and `target`.
    """
    for _ in range(_FRAMES_TO_LOOK_AT):
        if frame is None:
            break
        local_names = frame.f_locals
        for target in (getattr(local_names.get("backend"), "target", None), local_names.get("target")):
            if isinstance(getattr(target, "backend", None), str) and hasattr(target, "arch"):
                options = local_names.get("options")
                return target, options if isinstance(options, Mapping) else {}
        frame = frame.f_back
    return None, {}


def raise_name_error(fn: Any, key: str) -> None:
    """Raise what Triton raises for a string key that is no kernel parameter: the same type and text."""
    fn.arg_names.index(key)


def delivers_leaked_options(generation: Generation, option: str) -> bool:
    """Whether the installed Triton already takes a leaked `option` out of the constants by itself, as a
    patched triton-ascend or a fixed upstream does. Behaviour is probed, on a source that is thrown away."""
    try:
        source = generation.source_class(_ProbeKernel(), {"x": "*fp32"}, {option: 1})
        return option not in source.constants and source.parse_options().get(option) == 1
    except Exception:
        return False


def kernel_location(fn: Any) -> str | None:
    """`file:line` of the kernel `fn`, or None where it has no Python source."""
    code = getattr(getattr(fn, "fn", None), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def installed_release() -> str:
    """The installed triton-ascend or Triton, for messages: distribution name and version."""
    import importlib.metadata

    for name in ("triton-ascend", "triton"):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"triton {getattr(sys.modules.get('triton'), '__version__', '(unknown version)')}"


def overwritten_installation() -> str:
    """A hint for messages where triton and triton-ascend are installed side by side, else nothing.

    Both carry the package `triton` and overwrite each other's files, and imports then fail in many ways.
    """
    import importlib.metadata

    try:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in ("triton", "triton-ascend")]
    except importlib.metadata.PackageNotFoundError:
        return ""
    return (
        f" ({' and '.join(versions)} are both installed and overwrite each other's files: "
        "uninstall both, then install triton-ascend again)"
    )
