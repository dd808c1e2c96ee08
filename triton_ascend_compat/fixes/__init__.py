"""The fixes, in the order in which they are installed, and what each wraps.

This table is part of `import triton`. Why a fix is there, what it does, where the cause stands and when it
can go is in the module of its name, with its wrappers; but for `constants`, that is loaded when something
first passes through what it wraps.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.fixes import constants
from triton_ascend_compat.generations import Generation
from triton_ascend_compat.shim import Function, deferred

#: An attribute to wrap: its owner, its name, and what makes the wrapper of what stands there.
Wrapping = tuple[Any, str, Callable[[Function], Function]]


class Fix:
    """One thing that the shim puts right, behind the one installer; it can be switched off by its name. (A
    NamedTuple would take as long to make as all else here.)

    Attributes:
        name: by which it is switched off, and the name of its module.
        wrappings: what it wraps; for one that `awaits` a module, as far as that has been imported.
        awaits: a module that Triton may import only when it needs it; empty where there is none.
        unneeded: why it is not needed on this Triton; empty where it is.
    """

    def __init__(
        self,
        name: str,
        wrappings: Callable[[Generation], list[Wrapping]],
        awaits: str = "",
        unneeded: Callable[[], str] = str,
    ) -> None:
        self.name, self.wrappings, self.awaits, self.unneeded = name, wrappings, awaits, unneeded

    def tell(self, what: str) -> str:
        """A text of its module: WHY, HOW, UPSTREAM or UNTIL."""
        return str(getattr(importlib.import_module(f"{__name__}.{self.name}"), what))


def _constants(generation: Generation) -> list[Wrapping]:
    return [
        (generation.source_class, "__init__", constants.wrap_init),
        *((owner, name, constants.wrap_async_key) for owner, name in generations.async_key_bindings()),
        *((owner, name, constants.wrap_ast_to_ttir) for owner, name in generations.ast_to_ttir_bindings()),
    ]


def _later(owner: Any, name: str, fix: str, function: str) -> Wrapping:
    return owner, name, deferred(f"{__name__}.{fix}", function)


def _launch(_: Generation) -> list[Wrapping]:
    return [_later(generations.npu_backend_class(), "parse_options", "launch", "wrap_parse_options")]


def _config(_: Generation) -> list[Wrapping]:
    return [_later(generations.config_class(), "__init__", "config", "wrap_init")]


def _interpreter(_: Generation) -> list[Wrapping]:
    executor = generations.grid_executor()
    return [_later(executor, "__call__", "interpreter", "wrap_call")] if executor is not None else []


def _folding(_: Generation) -> list[Wrapping]:
    backend_class = generations.npu_backend_class()
    return [
        _later(backend_class, "hash", "folding", "wrap_hash"),
        _later(backend_class, "parse_options", "folding", "wrap_parse_options"),
    ]


def _no_npu_backend() -> str:
    return "" if generations.npu_backend_class() is not None else "no backend for target npu is installed"


def _no_folding() -> str:
    backend_class = generations.npu_backend_class()
    if backend_class is not None and generations.folding_reader(backend_class) is None:
        return f"no reader of {generations.FOLDING_VARIABLE} is found in this backend"
    return _no_npu_backend()


FIXES = (
    Fix("constants", _constants, generations.CODE_GENERATOR),
    Fix("launch", _launch, unneeded=_no_npu_backend),
    Fix("config", _config, unneeded=_no_npu_backend),
    Fix("interpreter", _interpreter, generations.INTERPRETER, _no_npu_backend),
    Fix("folding", _folding, unneeded=_no_folding),
)

#: Data that a decision uses unless they are switched off, like a fix, by their names.
DATA = ("renames", "foreign")

NAMES = (*(fix.name for fix in FIXES), *DATA)
