"""The errors and warnings that the shim raises.

`CompileOptionError` is built on the error classes of the imported Triton, so it is made when it is first
asked for: importing this module must not import Triton.
"""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "AbsentOptionWarning",
    "CompatError",
    "CompileOptionError",
    "IneffectiveOptionWarning",
    "SemanticOptionWarning",
]


class CompatError(RuntimeError):
    """The shim cannot be switched on here; the message says what was expected and what was found."""


class AbsentOptionWarning(UserWarning):
    """A compile option that this triton-ascend does not have was left out of a compile."""


class SemanticOptionWarning(UserWarning):
    """A compile option that this triton-ascend does not have was left out, and it changes what a kernel
    computes or how it synchronises: results may differ. (No AbsentOptionWarning, which may be ignored.)"""


class IneffectiveOptionWarning(UserWarning):
    """A compile option was delivered, but can have no effect as things stand."""


if TYPE_CHECKING:

    class CompileOptionError(ValueError):
        """A key is no compile option, its value does not fit, or it cannot be left out."""

        keys: tuple[str, ...]

        def __init__(self, message: str, keys: tuple[str, ...] = ()) -> None: ...


@functools.cache
def _on_bases(*bases: type) -> type:
    """The class, on the bases that the tuners in use skip.

    Triton's and triton-ascend's autotuners, torch Inductor's and torch_npu's all skip a candidate that
    raises OutOfResources; CompilationError and ValueError serve those who catch more narrowly (read in
    triton 3.2-3.9, triton-ascend 3.2.0, torch 2.6-2.14, torch_npu 2.13.0).
    """

    class CompileOptionError(*bases):  # type: ignore[misc]
        """A key is no compile option, its value does not fit, or it cannot be left out."""

        def __init__(self, message: str, keys: tuple[str, ...] = ()) -> None:
            # The bases' constructors want a resource and an AST node; handlers read these attributes.
            Exception.__init__(self, message)
            self.message = self.error_message = message
            self.keys = keys
            self.required = self.limit = 0
            self.name = "compile option"
            self.src = self.node = None

        def __str__(self) -> str:
            return str(self.message)

        def __reduce__(self) -> tuple[Any, ...]:
            return type(self), (self.message, self.keys)

    CompileOptionError.__module__ = __name__
    CompileOptionError.__qualname__ = "CompileOptionError"
    return CompileOptionError


def __getattr__(name: str) -> Any:
    if name != "CompileOptionError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from triton.compiler.errors import CompilationError
        from triton.runtime.errors import OutOfResources
    except ImportError as error:
        raise AttributeError(
            f"{name} is built on Triton's errors, and Triton cannot be imported: {error}"
        ) from error
    return _on_bases(OutOfResources, CompilationError, ValueError)
