"""Everything that differs between Triton generations, found by probing, never by comparing versions; and
every private name of Triton and triton-ascend.

The facts behind it were read from the wheels of triton 3.2.0, 3.3.1, 3.4.0, 3.5.1 and 3.6-3.9,
triton-ascend 3.2.0, and the public branches release/3.2.1, release/3.2.2 and main of triton-ascend.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Mapping
from typing import Any, Callable

from triton_ascend_compat.errors import CompatError
from triton_ascend_compat.startup import import_hook

NPU = "npu"

COMPILER = "triton.compiler.compiler"

#: The module that defines `ast_to_ttir`.
CODE_GENERATOR = "triton.compiler.code_generator"

#: The module that runs kernels in Python when TRITON_INTERPRET is set; imported when it is first needed.
INTERPRETER = "triton.runtime.interpreter"

#: Keyword arguments of a launch about which Triton has a word of its own ("... option is deprecated").
LAUNCH_RESERVED = ("device", "device_type", "stream")

#: Options that the JIT itself adds to the keywords of every launch: `debug` in all generations, the others
#: from Triton 3.6 and 3.9 on.
ADDED_TO_LAUNCHES = frozenset({"debug", "instrumentation_mode", "fpsan_homomorphic_casts"})


class Generation:
    """The shape of the installed Triton. (No dataclass: making one costs the start-up path a millisecond.)

    Attributes:
        source_class: `triton.compiler.compiler.ASTSource`.
        constants_parameter: the name of its third argument: `constants` up to Triton 3.2, `constexprs`
            from 3.3 on.
        resolves_names_early: whether `ASTSource.__init__` itself looks string keys up among the kernel
            parameters (from 3.3 on), rather than the code generator.
        delivers_itself: whether it takes leaked options out of the constants by itself, as a patched
            triton-ascend or a fixed upstream does.
    """

    def __init__(self, source_class: Any) -> None:
        self.source_class = source_class
        self.constants_parameter = _constants_parameter(source_class)
        self.resolves_names_early = _resolves_names_early(source_class)
        self.delivers_itself = delivers(source_class, ProbeKernel(plain=True))

    @property
    def label(self) -> str:
        """For messages: what distinguishes this generation."""
        where = "ASTSource.__init__" if self.resolves_names_early else "the code generator"
        return f"ASTSource({self.constants_parameter}=…), names resolved in {where}"


def live_source_class() -> Any:
    """`ASTSource` of the Triton that is imported now, and that `triton.compile` uses; None where Triton is
    not imported, or not yet. Imports nothing and waits for nothing."""
    if "triton" not in sys.modules or import_hook.is_importing(COMPILER):
        return None
    return getattr(sys.modules.get(COMPILER), "ASTSource", None)


def is_imported() -> bool:
    """Whether Triton is imported, of whichever shape, and its import has come to its end."""
    return "triton" in sys.modules and not any(map(import_hook.is_importing, ("triton", COMPILER)))


def detect() -> Generation:
    """The generation of the Triton that is imported.

    Raises:
        CompatError: its front end has a shape that the shim does not know; says which shape it expects.
    """
    source_class = live_source_class()
    if source_class is None:
        raise CompatError(f"expected {COMPILER}.ASTSource, found none")
    for method in ("hash", "make_ir", "parse_options"):
        if not callable(getattr(source_class, method, None)):
            raise CompatError(f"expected a method ASTSource.{method}, found none")
    code_generator = sys.modules.get(CODE_GENERATOR)
    if code_generator is not None and not callable(getattr(code_generator, "ast_to_ttir", None)):
        raise CompatError(f"expected {CODE_GENERATOR}.ast_to_ttir, found none")
    return Generation(source_class)


class ProbeKernel:
    """Stands in for a JITFunction: `ASTSource` reads nothing else of it before it compiles, and the offline
    mode, which sees every source, no more than its parameters.

    Args:
        plain: whether wrappers of ours let it pass, so that it shows what is below them.
    """

    __name__ = "probe"
    arg_names = ("x",)
    params = ()
    cache_key = "probe"

    def __init__(self, plain: bool) -> None:
        self.plain = plain


#: Any option that every Ascend backend has had, to probe with.
PROBE_OPTION = "num_warps"


def delivers(source_class: Any, kernel: ProbeKernel) -> bool:
    """Whether a leaked option is delivered: probed on a source that is thrown away."""
    try:
        source = source_class(kernel, {"x": "*fp32"}, {PROBE_OPTION: 1})
        return PROBE_OPTION not in source.constants and source.parse_options().get(PROBE_OPTION) == 1
    except Exception:
        return False


def _resolves_names_early(source_class: Any) -> bool:
    try:
        source_class(ProbeKernel(plain=True), {"x": "*fp32"}, {"no_parameter": 1})
    except Exception:
        return True
    return False


def _constants_parameter(source_class: Any) -> str:
    """The name of the third argument of `ASTSource`."""
    try:
        parameters = inspect.signature(source_class.__init__).parameters
    except (TypeError, ValueError) as error:
        raise CompatError(
            f"expected ASTSource(fn, signature, constants|constexprs, attrs): {error}"
        ) from error
    names = list(parameters)
    if len(names) == 5 and names[:3] == ["self", "fn", "signature"] and names[4] == "attrs":
        return names[3]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        # Somebody's wrapper hides the signature: whether a name is accepted still shows.
        for name in ("constants", "constexprs"):
            try:
                source_class(fn=ProbeKernel(plain=True), signature={"x": "*fp32"}, attrs=None, **{name: {}})
            except TypeError:
                continue
            return name
    found = ", ".join(names[1:])
    raise CompatError(
        f"expected ASTSource(fn, signature, constants|constexprs, attrs), found ASTSource({found})"
    )


def ast_to_ttir_bindings() -> list[tuple[Any, str]]:
    """The modules that bind `ast_to_ttir`, as (module, name): the code generator's own, and, up to
    Triton 3.3, the compiler module's, which `ASTSource.make_ir` looks up. None while the code generator is
    not imported: Triton 3.4 and later import it (100 ms) when the first source is compiled."""
    code_generator = sys.modules.get(CODE_GENERATOR)
    if code_generator is None:
        return []
    modules = (code_generator, sys.modules.get(COMPILER))
    return [(module, "ast_to_ttir") for module in modules if hasattr(module, "ast_to_ttir")]


def async_key_bindings() -> list[tuple[Any, str]]:
    """The names, as (module, name), of the function that keys a compile: `compile` uses the compiler
    module's, the JIT's asynchronous mode (Triton 3.5 and later, triton-ascend 3.2.1) its own or, where it
    imports it when it needs it, the compiler module's."""
    modules = (sys.modules.get(COMPILER), sys.modules.get("triton.runtime.jit"))
    return [(module, "get_cache_key") for module in modules if hasattr(module, "get_cache_key")]


#: Only to have a target to ask with: which options exist does not depend on the chip.
_ANY_ARCH = "Ascend910B2"


@functools.cache
def _any_target(target_class: Any) -> Any:
    return target_class(NPU, _ANY_ARCH, 0)


def backend_registry() -> tuple[Any, ...]:
    """The backends among which `triton.compile` looks for the one that supports a target."""
    return tuple(getattr(sys.modules.get(COMPILER), "backends", {}).values())


def npu_backend_class() -> type | None:
    """The class of the backend that compiles for target npu; None where there is none.

    Asked from the registry that `triton.compile` looks into: triton-ascend 3.2.0 loads its backend module
    twice, and the copy that `triton.backends.ascend.compiler` names is never used; a reload makes more.
    """
    target_class = getattr(sys.modules.get(COMPILER), "GPUTarget", None)
    for backend in backend_registry():
        try:
            if backend.compiler.supports_target(_any_target(target_class)):
                return backend.compiler  # type: ignore[no-any-return]
        except Exception:  # somebody else's backend; one of ours that fails so compiles nothing either
            continue
    return None


def parse_plainly(backend_class: type, opts: Mapping[str, Any]) -> Any:
    """What the backend itself makes of `opts`, without anybody's wrapper."""
    backend = backend_class(_any_target(sys.modules[COMPILER].GPUTarget))
    return inspect.unwrap(backend_class.parse_options)(backend, dict(opts))  # type: ignore[attr-defined]


def options_class(backend_class: type) -> tuple[Any, Any]:
    """The dataclass that the backend builds its options with, and its default instance (None where the
    backend builds none here); None and None where it has no dataclass."""
    import dataclasses

    try:
        options = parse_plainly(backend_class, {})
    except Exception:  # a backend may need its device to build options; its module still names the class
        options = backend_namespace(backend_class).get("NPUOptions")
    if isinstance(options, type):
        return (options if dataclasses.is_dataclass(options) else None), None
    return (type(options), options) if dataclasses.is_dataclass(options) else (None, None)


def retired_names(backend_class: type) -> frozenset[str]:
    """The names that the backend accepts, warns about and drops: late-2026 backends keep such a set in
    `triton.backends.ascend.utils`, from where their module imports it."""
    elsewhere = getattr(sys.modules.get("triton.backends.ascend.utils"), "_DEPRECATED_NPU_OPTIONS", ())
    return frozenset(backend_namespace(backend_class).get("_DEPRECATED_NPU_OPTIONS", elsewhere))


def backend_namespace(backend_class: Any) -> dict[str, Any]:
    """The globals of the module that defines a backend; it need not be in `sys.modules`. A method that
    somebody has replaced has other globals, so that all are asked."""
    found: dict[str, Any] = {}
    for method in vars(backend_class).values():
        found = getattr(inspect.unwrap(method) if callable(method) else method, "__globals__", {})
        if found.get("__name__") == backend_class.__module__:
            break
    return found


def config_class() -> Any:
    """`triton.Config`, by whichever name it was imported."""
    return sys.modules["triton.runtime.autotuner"].Config


def kernel_class() -> Any:
    """The class of kernels, and of what is wrapped around them: `fn` is what is inside."""
    return sys.modules["triton.runtime.jit"].KernelInterface


def config_drops_unknown() -> bool:
    """Whether `Config` takes any keyword and drops what it does not know, as that of triton-ascend 3.2.0."""
    try:
        return "no_parameter" not in vars(config_class()({}, no_parameter=None))
    except Exception:
        return False


def grid_executor() -> Any:
    """The class that launches a kernel under TRITON_INTERPRET; None while its module is not imported."""
    return getattr(sys.modules.get(INTERPRETER), "GridExecutor", None)


def interpreter_keywords() -> frozenset[str]:
    """The keyword arguments that the interpreter takes off a launch itself."""
    return frozenset(getattr(sys.modules.get(INTERPRETER), "RESERVED_KWS", ())) | {"warmup"}


#: Folds a grid of more than 65535 blocks onto the physical cores.
FOLDING_VARIABLE = "TRITON_ALL_BLOCKS_PARALLEL"
_FOLDING_FUNCTION = "_is_auto_map_parallel_blocks_enabled"


def folding_reader(backend_class: Any) -> Callable[[], bool] | None:
    """The backend's own function that reads TRITON_ALL_BLOCKS_PARALLEL; None where it has none."""
    reader = backend_namespace(backend_class).get(_FOLDING_FUNCTION)
    return reader if callable(reader) else None


def folding_where_unset(reader: Callable[[], bool]) -> bool | None:
    """What `reader` says where the variable is unset: off up to triton-ascend 3.2.1, on from 3.2.2 on. None
    where it cannot be told. It is run on an environment without the variable: the real one is everybody's."""
    import os
    from types import FunctionType, SimpleNamespace

    environ = {name: value for name, value in os.environ.items() if name != FOLDING_VARIABLE}
    if len(environ) == len(os.environ):
        return bool(reader())
    code, names = getattr(reader, "__code__", None), getattr(reader, "__globals__", {})
    if code is None:
        return None
    os_without = SimpleNamespace(environ=environ, getenv=environ.get)
    try:
        return bool(
            FunctionType(code, {**names, "os": os_without}, closure=getattr(reader, "__closure__", None))()
        )
    except Exception:
        return None


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


def active_driver_slot() -> tuple[Any, str]:
    """Where Triton keeps the active driver, as (owner, attribute): `active` up to 3.4; from 3.5 on `_active`,
    behind a property that resolves a real driver when it is read."""
    from triton.runtime.driver import driver

    return driver, "_active" if "_active" in vars(driver) else "active"


def loading_returns_a_thread_limit() -> bool:
    """Whether a kernel unpacks a fifth value, the limit of threads, from the driver's `load_binary`: from
    Triton 3.4 on."""
    from triton.compiler.compiler import CompiledKernel

    return "n_max_threads" in inspect.unwrap(CompiledKernel._init_handles).__code__.co_names


def parameter_of_constant(fn: Any, key: Any) -> str:
    """The parameter of kernel `fn` that a key of a source's constants means: a name up to Triton 3.2, an
    index or a path that begins with one from 3.3 on."""
    while isinstance(key, tuple):
        key = key[0]
    return str(fn.arg_names[key]) if isinstance(key, int) else str(key)


def kernel_location(fn: Any) -> str | None:
    """`file:line` of the kernel `fn` (a JITFunction or its function); None where it has no source."""
    code = getattr(getattr(fn, "fn", fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


@functools.cache
def installed_release() -> str:
    """The installed triton-ascend or Triton, for messages: distribution name and version."""
    import importlib.metadata

    for name in ("triton-ascend", "triton"):
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"triton {getattr(sys.modules.get('triton'), '__version__', '(unknown version)')}"


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
