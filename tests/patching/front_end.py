"""Loads one front end's `triton/compiler/compiler.py` and shows what it does with leaked constants.

Real: compiler.py and errors.py of the tree in question, its `runtime/errors.py`, `errors.py` and
`backends/compiler.py`. Stand-ins: everything else that compiler.py imports (there is no libtriton for these
trees), and an npu and a cuda backend of two options. A compile ends in the stand-in for the code generator,
which looks names up as the real one does.

Run as a script: `python front_end.py FOLDER`, FOLDER being what holds `triton`. Prints JSON.
"""

from __future__ import annotations

import json
import pickle
import sys
import types
from dataclasses import make_dataclass
from pathlib import Path


class Reached(BaseException):
    """The front end has done its part of a compile. Its argument is the key that the cache was asked for."""


# Types and not their names as annotations, as in triton-ascend's options.
Options = make_dataclass(
    "Options",
    [("multibuffer", bool, True), ("num_warps", int, 4), ("_private", int, 0)],
    frozen=True,
    namespace={"hash": lambda self: repr(self)},
)


class NpuBackend:
    name = "npu"

    def __init__(self, target):
        self.target = target

    @classmethod
    def supports_target(cls, target):
        return target.backend == cls.name

    def parse_options(self, opts):
        return Options(**{k: v for k, v in opts.items() if k in ("multibuffer", "num_warps")})

    def hash(self):
        return self.name

    def add_stages(self, stages, options, language=None):
        stages["ttir"] = None

    def load_dialects(self, context):
        pass

    def get_codegen_implementation(self, *options):
        return {}

    def get_module_map(self):
        return {}


class CudaBackend(NpuBackend):
    name = "cuda"


class Kernel:
    __name__ = "kernel"
    arg_names = ["x", "BLOCK", "num_stages"]  # noqa: RUF012 - a list, as a JITFunction has
    cache_key = "source"


class constexpr:
    def __init__(self, value):
        self.value = value


class EmptyCache:
    asked_for: str

    def __init__(self, key):
        EmptyCache.asked_for = key

    def get_group(self, name):
        return None


def fail(*_, **__):
    raise AssertionError("not reached")


def load(folder: Path):
    """The module `triton.compiler.compiler` of `folder`, on stand-ins."""

    def module(name, real_path=None, **attributes):
        stand_in = types.ModuleType(name)
        stand_in.__dict__.update(attributes)
        if real_path is not None:
            stand_in.__path__ = [str(folder / real_path)]
        sys.modules[name] = stand_in
        return stand_in

    have = types.SimpleNamespace
    settings = dict.fromkeys(
        ["listener", "override", "dump_ir", "store_binary_only", "always_compile", "front_end_debugging"]
    )
    knobs = module("triton.knobs", compilation=have(**settings))
    module("triton", "triton", __version__="0", knobs=knobs)
    dialects = have(context=lambda: None, load_dialects=lambda context: None)
    module("triton._C", "missing")
    libtriton = module("triton._C.libtriton", "missing", ir=dialects, buffer_ir=dialects)
    libtriton.get_cache_invalidating_env_vars = dict
    module("triton._C.libtriton.ascend", ir=dialects)
    backends = {"ascend": have(compiler=NpuBackend), "nvidia": have(compiler=CudaBackend)}
    module("triton.backends", "triton/backends", backends=backends)
    module("triton.backends.ascend", "missing")
    module("triton.backends.ascend.compiler", AscendAttrsDescriptor=lambda: have(hash=lambda: "attrs"))
    module("triton.runtime", "triton/runtime")
    from triton.runtime.errors import OutOfResources

    module("triton.runtime.autotuner", OutOfResources=OutOfResources)
    module(
        "triton.runtime.cache",
        get_cache_manager=EmptyCache,
        get_dump_manager=fail,
        get_override_manager=fail,
        get_cache_key=lambda src, backend, options, env_vars: (
            f"{src.hash()}-{backend.hash()}-{options.hash()}"
        ),
    )
    module("triton.runtime.driver", driver=None)
    module("triton.tools", "missing")
    module("triton.tools.disasm", get_sass=fail)
    module("triton.compiler", "triton/compiler")
    module("triton.language", "missing")
    module("triton.language.core", constexpr=constexpr)

    def ast_to_ttir(fn, src, **_):
        for key in src.constants:
            if isinstance(key, str):
                fn.arg_names.index(key)
        raise Reached(EmptyCache.asked_for)

    module("triton.compiler.code_generator", ast_to_ttir=ast_to_ttir)
    import triton.compiler.compiler as compiler

    compiler.triton_key = lambda: "key"
    return compiler


def main(folder: Path) -> dict[str, object]:
    compiler = load(folder)
    from triton.backends.compiler import GPUTarget

    npu, cuda = GPUTarget("npu", "Ascend910B2", 0), GPUTarget("cuda", 80, 32)
    signature = {"x": "*fp32"}
    real = {"BLOCK": 8, "num_stages": None}

    def outcome(constants, target=npu, options=None):
        """The cache key, or the error as [text, types, whether it survives pickling]."""
        try:
            compiler.compile(compiler.ASTSource(Kernel(), signature, constants), target, options)
        except Reached as reached:
            return str(reached)
        except Exception as error:
            copy = pickle.loads(pickle.dumps(error))
            types_ = [base.__name__ for base in type(error).__mro__]
            return [str(error), types_, (type(copy), str(copy)) == (type(error), str(error))]
        raise AssertionError("a compile cannot end here")

    clean = compiler.ASTSource(Kernel(), signature, real)
    found = {
        "leaky": outcome({**real, "num_warps": 8}),
        "asked": outcome(real, options={"num_warps": 8}),
        "other": outcome({**real, "num_warps": 2}),
        "plain": outcome(real),
        "both": outcome({**real, "num_warps": 8}, options={"num_warps": 2}),
        "unknown": outcome({**real, "num_warp": 8}),
        "private": outcome({**real, "_private": 8}),
        "wrong type": outcome({**real, "num_warps": "8"}),
        "cuda plain": outcome(real, cuda),
        "cuda leaky": outcome({**real, "num_warps": 8}, cuda),
        "clean": [list(clean.constants.values()), clean.parse_options()],
        "clean is the caller's dict": clean.constants is real,
    }
    leaks = ({}, {"num_warps": 8}, {"num_warps": 2}, {"num_warps": 8, "multibuffer": False})
    given = {**real, "num_warps": constexpr(8), "multibuffer": False}
    types_given = {**signature, "num_warps": "constexpr", "BLOCK": "constexpr"}
    try:
        source = compiler.ASTSource(Kernel(), types_given, given)
    except ValueError:
        return found  # not patched, from 3.3 on
    found["source"] = {
        "constants": [key if isinstance(key, str) else Kernel.arg_names[key[0]] for key in source.constants],
        "signature": list(source.signature),
        "options": source.parse_options(),
    }
    sources = [compiler.ASTSource(Kernel(), signature, {**real, **leaked}) for leaked in leaks]
    found["hashes"] = [source.hash() for source in sources]
    found["given"] = [list(given), list(types_given)]
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]).resolve())))
