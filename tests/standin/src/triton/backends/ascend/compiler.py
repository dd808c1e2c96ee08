"""Stand-in for the compiler side of the Ascend backend: see tests/standin/README.md.

The options classes stand in this module, as in triton-ascend: Triton 3.2 and 3.3 load it as a module that
is not in `sys.modules`, which is part of what is to be tested. (For the same reason there are no postponed
annotations here: `dataclasses` looks their module up.)
"""

import hashlib
import os
import warnings
from dataclasses import InitVar, dataclass, field, fields
from typing import Optional

from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend

SHAPE = os.environ.get("TRITON_NPU_STANDIN_SHAPE", "3.2.1")


@dataclass(frozen=True)
class _CommonOptions:
    """What the front ends of all Triton generations read from a backend's options."""

    debug: bool = False
    sanitize_overflow: bool = True
    cluster_dims: tuple = (1, 1, 1)
    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 1
    maxnreg: Optional[int] = None
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e5",)
    deprecated_fp8_dtypes: tuple[str, ...] = ()
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "hf32")
    max_num_imprecise_acc_default: int = 0
    extern_libs: Optional[dict] = None
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    backend_name: str = "npu"
    multibuffer: bool = True
    unit_flag: Optional[bool] = None
    set_workspace_multibuffer: Optional[int] = None
    limit_auto_multi_buffer_of_local_buffer: Optional[str] = None
    stream: Optional[int] = None
    compile_mode: str = "simd"

    def hash(self):
        key = "_".join(f"{name}-{value}" for name, value in self.__dict__.items())
        return hashlib.sha256(key.encode()).hexdigest()


@dataclass(frozen=True)
class _Options320(_CommonOptions):
    arch: str = ""
    warp_size: int = 32
    force_simt_only: bool = False


@dataclass(frozen=True)
class _Options321(_Options320):
    auto_blockify_size: int = 1


@dataclass(frozen=True)
class _OptionsLate2026(_CommonOptions):
    arch: InitVar[str] = ""
    buf_slot_num_of_crosscore: int = 1
    target_arch: str = field(init=False)
    warp_size: int = field(init=False)
    is_pure_simt: bool = field(init=False)

    def __post_init__(self, arch):
        object.__setattr__(self, "target_arch", arch)
        object.__setattr__(self, "warp_size", 32)
        object.__setattr__(self, "is_pure_simt", self.compile_mode == "simt_only")


NPUOptions = {"3.2.0": _Options320, "3.2.1": _Options321, "late-2026": _OptionsLate2026}[SHAPE]


def _late_2026_arguments(opts):
    """Rename and retire names the way the backend of autumn 2026 does."""
    from triton.backends.ascend.utils import _DEPRECATED_NPU_OPTIONS

    args = dict(opts)
    for name in sorted(_DEPRECATED_NPU_OPTIONS & args.keys()):
        warnings.warn(f"NPU option {name!r} is deprecated and ignored", FutureWarning, stacklevel=3)
        del args[name]
    if "inter_cache_num" in args:
        args["buf_slot_num_of_crosscore"] = args.pop("inter_cache_num")
    if args.pop("force_simt_only", False):
        args["compile_mode"] = "simt_only"
    return args


class StandInAscendBackend(BaseBackend):
    binary_ext = "npubin"

    @staticmethod
    def supports_target(target):
        return target.backend == "npu"

    def parse_options(self, opts):
        args = _late_2026_arguments(opts) if NPUOptions is _OptionsLate2026 else dict(opts)
        args["arch"] = self.target.arch
        settable = {f.name for f in fields(NPUOptions) if f.init} | {"arch"}
        # As in triton-ascend, a key that is no field is dropped without a word.
        return NPUOptions(**{name: value for name, value in args.items() if name in settable})

    def get_codegen_implementation(self, options=None):
        return {"min_dot_size": lambda lhs, rhs: (1, 1, 1)}

    def get_module_map(self):
        return {}

    def get_target_name(self, options):
        return "cuda:90"  # Gluon's module verifier knows GPU targets only.

    def load_dialects(self, context):
        pass

    def pack_metadata(self, metadata):
        return {"hash": metadata.hash, "debug": metadata.debug}

    def hash(self):
        return f"stand-in-{SHAPE}-{self.target}"

    def add_stages(self, stages, options, language=None):
        gluon = getattr(language, "name", "TRITON") == "GLUON"
        if gluon:
            # Triton 3.4 starts Gluon's source at this stage, later ones at glir.
            stages["glir"] = lambda module, metadata: module
            stages["ttgir"] = lambda module, metadata: module
        else:
            stages["ttir"] = lambda module, metadata: _ttir(module)
        stages["npubin"] = lambda module, metadata: _text_binary(module, metadata, options)


def _ttir(module):
    manager = ir.pass_manager(module.context)
    passes.common.add_inliner(manager)
    passes.ttir.add_combine(manager)
    passes.common.add_canonicalizer(manager)
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    try:
        manager.run(module, "make_ttir")
    except TypeError:  # Triton up to 3.5 takes no name.
        manager.run(module)
    return module


def _text_binary(module, metadata, options):
    metadata["shared"] = 0
    metadata["name"] = metadata["kernel_name"] = "stand_in"
    return f"stand-in binary, runs nowhere\n{options}\n{module}".encode()
