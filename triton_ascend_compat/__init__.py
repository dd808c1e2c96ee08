"""A thin compatibility layer over Triton on Huawei Ascend NPUs.

Compile options of triton-ascend that a frontend leaves among a kernel's compile-time constants are taken
out and delivered as options, so that the compile no longer dies with
`ValueError: 'auto_blockify_size' is not in list`.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # importing typing would cost every interpreter that starts with TRITON_PLUGIN set
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from triton_ascend_compat.errors import (
        AbsentOptionWarning,
        CompatError,
        CompileOptionError,
        IneffectiveOptionWarning,
    )
    from triton_ascend_compat.state import Status
    from triton_ascend_compat.tally import Report

__all__ = [
    "AbsentOptionWarning",
    "CompatError",
    "CompileOptionError",
    "IneffectiveOptionWarning",
    "Report",
    "Status",
    "__version__",
    "disable",
    "enable",
    "report",
    "status",
]

# Everything below is imported when it is used: the start-up path imports this package.


def enable(strict: bool | None = None, without: Collection[str] | None = None) -> Status:
    """Switch the shim on in this process; twice is once, and the second time may change the arguments.

    Args:
        strict: make a compile option that this triton-ascend does not have an error instead of a warning.
            None asks the environment variable TRITON_ASCEND_COMPAT_STRICT.
        without: the names of fixes that are to stay off (`status().fixes` lists them). None asks the
            environment variable TRITON_ASCEND_COMPAT_DISABLE.

    Returns:
        The status afterwards. A Triton that delivers such options itself needs no shim: it stands down.

    Raises:
        CompatError: Triton is absent or has a shape that the shim does not know, or no fix has a name in
            `without`.
    """
    from triton_ascend_compat import installer

    installer.install(strict, without)
    return status()


def disable() -> Status:
    """Switch the shim off in this process and put back exactly what was there.

    A wrapper that somebody else put on top of ours is left alone: ours goes inert below it, and the
    returned status says so.
    """
    from triton_ascend_compat import installer, startup

    startup.disarm()
    installer.uninstall()
    return status()


def status() -> Status:
    """What the shim does in this process and why; imports nothing and changes nothing."""
    from triton_ascend_compat import state

    return state.current()


def report() -> Report:
    """What became of misplaced compile options in this process so far, with counts."""
    from triton_ascend_compat import tally

    return tally.current()


def __getattr__(name: str) -> Any:
    if name in ("AbsentOptionWarning", "CompatError", "CompileOptionError", "IneffectiveOptionWarning"):
        from triton_ascend_compat import errors

        return getattr(errors, name)
    if name == "Status":
        from triton_ascend_compat.state import Status

        return Status
    if name == "Report":
        from triton_ascend_compat.tally import Report

        return Report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
