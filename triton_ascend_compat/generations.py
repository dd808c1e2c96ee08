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
from typing import Any, Callable

from triton_ascend_compat.errors import CompatError

NPU = "npu"

#: The module that defines `ast_to_ttir`.
CODE_GENERATOR = "triton.compiler.code_generator"

#: The module that runs kernels in Python when TRITON_INTERPRET is set; imported when it is first needed.
INTERPRETER = "triton.runtime.interpreter"

#: Keyword arguments of a launch about which Triton has a word of its own ("... option is deprecated").
LAUNCH_RESERVED = frozenset({"device", "device_type", "stream"})

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


def option_call(frame: FrameType | None, opts: Any) -> tuple[Any, tuple[dict[str, Any], ...]]:
    """On whose behalf the code of `frame` calls `backend.parse_options(opts)`: the kernel (a JITFunction),
    None where no caller shows one; and, where a kernel is being launched, the dicts of keyword arguments in
    which the launch looks unknown names up afterwards.

    In every generation a launch parses its options only when its kernel is not in the in-memory cache:
    `JITFunction.run` (up to Triton 3.4) or `JITFunction._pack_args` passes its own `kwargs`, and then looks
    through them for names that are neither option nor parameter; Triton 3.2 looks through
    `excess_kwargs`, which its binder made of them. `compile` has the source in its local variable `src`.
    """
    for _ in range(_FRAMES_TO_LOOK_AT):
        if frame is None:
            break
        local_names = frame.f_locals
        if local_names.get("kwargs") is opts and hasattr(local_names.get("self"), "arg_names"):
            looked_up = (opts, local_names.get("excess_kwargs"))
            return local_names["self"], tuple(names for names in looked_up if isinstance(names, dict))
        fn = getattr(local_names.get("src"), "fn", None)
        if fn is not None:
            return fn, ()
        frame = frame.f_back
    return None, ()


def unrecognised_keyword(key: str) -> str:
    """What Triton says about a keyword argument of a launch that is neither parameter nor option."""
    return f"Keyword argument {key} was specified but unrecognised"


def config_class() -> Any:
    """`triton.Config`, by whichever name it was imported."""
    return sys.modules["triton.runtime.autotuner"].Config


def named_parameters(function: Any) -> tuple[frozenset[str], bool]:
    """The parameter names of `function`, and whether it swallows other keywords (as `Config` of
    triton-ascend 3.2.0 does, to look up some of them and drop the rest)."""
    parameters = inspect.signature(function).parameters.values()
    return (
        frozenset(p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)),
        any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def grid_executor() -> Any:
    """The class that launches a kernel under TRITON_INTERPRET; None while its module is not imported."""
    return getattr(sys.modules.get(INTERPRETER), "GridExecutor", None)


def interpreter_keywords() -> frozenset[str]:
    """The keyword arguments that the interpreter takes off a launch itself."""
    return frozenset(getattr(sys.modules.get(INTERPRETER), "RESERVED_KWS", ())) | {"warmup"}


#: Folds a grid of more than 65535 blocks onto the physical cores.
FOLDING_VARIABLE = "TRITON_ALL_BLOCKS_PARALLEL"
_FOLDING_FUNCTION = "_is_auto_map_parallel_blocks_enabled"


def backend_namespace(backend_class: Any) -> dict[str, Any]:
    """The globals of the module that defines a backend; it need not be in `sys.modules`."""
    namespace: dict[str, Any] = getattr(inspect.unwrap(backend_class.add_stages), "__globals__", {})
    return namespace


def folding_reader(backend_class: Any) -> Callable[[], bool] | None:
    """The backend's own function that reads TRITON_ALL_BLOCKS_PARALLEL; None where it has none, since it
    retired the variable. (triton-ascend 3.2.0, 3.2.1 and main of April 2026 have one.)"""
    reader = backend_namespace(backend_class).get(_FOLDING_FUNCTION)
    return reader if callable(reader) else None


def folding_is_in_the_key(backend_class: Any) -> bool:
    """Whether the cache key tells the folding without us: through the backend's hash or options, whose code
    then reads the variable, or through Triton's list of variables that invalidate the cache, which shows
    those that are set: to be asked while this one is."""
    for method in (backend_class.hash, backend_class.parse_options):
        code = getattr(inspect.unwrap(method), "__code__", None)
        if code is not None and {_FOLDING_FUNCTION, FOLDING_VARIABLE} & {
            *code.co_names,
            *map(str, code.co_consts),
        }:
            return True
    listed = getattr(sys.modules.get("triton._C.libtriton"), "get_cache_invalidating_env_vars", dict)
    return FOLDING_VARIABLE in listed()


def raise_name_error(fn: Any, key: str) -> None:
    """Raise what Triton raises for a string key that is no kernel parameter: the same type and text."""
    fn.arg_names.index(key)


#: Any option that every Ascend backend has had, to probe with.
_PROBE_OPTION = "num_warps"


def delivers_leaked_options(generation: Generation) -> bool:
    """Whether the installed Triton takes leaked options out of the constants by itself, as a patched
    triton-ascend or a fixed upstream does. Behaviour is probed, on a source that is thrown away."""
    try:
        source = generation.source_class(_ProbeKernel(), {"x": "*fp32"}, {_PROBE_OPTION: 1})
        return _PROBE_OPTION not in source.constants and source.parse_options().get(_PROBE_OPTION) == 1
    except Exception:
        return False


def kernel_location(fn: Any) -> str | None:
    """`file:line` of the kernel `fn` (a JITFunction or its function); None where it has no source."""
    code = getattr(getattr(fn, "fn", fn), "__code__", None)
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


def active_driver_slot() -> tuple[Any, str]:
    """Where Triton keeps the active driver, as (owner, attribute): `active` up to 3.4; from 3.5 on `_active`,
    behind a property that resolves a real driver when it is read."""
    from triton.runtime.driver import driver

    return driver, "_active" if "_active" in vars(driver) else "active"


def loading_returns_a_thread_limit() -> bool:
    """Whether a kernel unpacks a fifth value, the limit of threads, from the driver's `load_binary`: from
    Triton 3.4 on."""
    from triton.compiler.compiler import CompiledKernel

    return "n_max_threads" in CompiledKernel._init_handles.__code__.co_names


def parameter_of_constant(fn: Any, key: Any) -> str:
    """The parameter of kernel `fn` that a key of a source's constants means: a name up to Triton 3.2, an
    index or a path that begins with one from 3.3 on."""
    while isinstance(key, tuple):
        key = key[0]
    return str(fn.arg_names[key]) if isinstance(key, int) else str(key)


#: Options that the JIT itself adds to the keywords of every launch: `debug` in all generations, the others
#: from Triton 3.6 and 3.9 on.
ADDED_TO_LAUNCHES = frozenset({"debug", "instrumentation_mode", "fpsan_homomorphic_casts"})


def divisible_parameters(source: Any) -> list[str]:
    """The parameters of a source's kernel that it takes to be divisible by 16. The source has an
    AttrsDescriptor up to Triton 3.2, from 3.3 on a dict from the path of a parameter to its attributes."""
    attrs = source.attrs
    if isinstance(attrs, Mapping):
        divisible = [path[0] for path, given in attrs.items() if ["tt.divisibility", 16] in map(list, given)]
    else:
        divisible = getattr(attrs, "arg_properties", {}).get("tt.divisibility", ())
    return [source.fn.arg_names[index] for index in divisible]


def accepted_chips() -> list[str]:
    """The names that triton-ascend accepts as TRITON_ASCEND_ARCH; empty where it has no list. The list is a
    constant inside the function that reads the variable."""
    try:
        from triton.backends.ascend.utils import get_ascend_arch_from_env as reader
    except ImportError:
        return []
    constants = [constant for constant in reader.__code__.co_consts if isinstance(constant, tuple)]
    return [name for names in constants for name in names if str(name).startswith("Ascend")]
