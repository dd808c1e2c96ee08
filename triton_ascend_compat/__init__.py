"""A thin compatibility layer over Triton on Huawei Ascend NPUs.

Compile options of triton-ascend that a frontend leaves among a kernel's compile-time constants are taken
out and delivered as options, so that the compile no longer dies with
`ValueError: 'auto_blockify_size' is not in list`.

The house, from the door down; imports go down only:

    __init__, cli, commands/, pytest_plugin   what people call
    checking/, patching/, offline/            CI without an NPU; patched installs; compiling without CANN
    state                                     what a leaked option meets now, and why
    installer                                 puts wrappers on Triton and takes them off
    fixes/                                    one module a fix: its wrappers, and why it is there
    telling/                                  errors, warnings, events, counts
    decision/                                 `plan.decide`: what becomes of a key; policy, catalogue
    shim, frames, settings, installation      what wrappers share, whoever calls them, whose files there are
    generations                               all that differs between Tritons
    startup/, errors                          the start-up files and the import hook; what is raised
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
        SemanticOptionWarning,
    )
    from triton_ascend_compat.offline import offline as offline
    from triton_ascend_compat.state import Status
    from triton_ascend_compat.telling.tally import Report

__all__ = [
    "AbsentOptionWarning",
    "CompatError",
    "CompileOptionError",
    "IneffectiveOptionWarning",
    "Report",
    "SemanticOptionWarning",
    "Status",
    "__version__",
    "disable",
    "enable",
    "offline",
    "report",
    "status",
]

# Everything below is imported when it is used: the start-up path imports this package.


def enable(strict: bool | None = None, without: Collection[str] | None = None) -> Status:
    """Switch the shim on in this process; twice is once, and the second time may change the arguments.

    Where Triton is not imported yet, that is remembered and takes effect when it is. Where another thread is
    importing it, this waits until it has.

    Args:
        strict: make a compile option that this triton-ascend does not have an error instead of a warning.
            None asks the environment variable TRITON_ASCEND_COMPAT_STRICT.
        without: the names of fixes that are to stay off (`status().fixes` lists them), or of the data
            `renames` and `foreign`. None asks the environment variable TRITON_ASCEND_COMPAT_DISABLE.

    Returns:
        The status afterwards. A Triton that delivers such options itself needs no shim: it stands down.

    Raises:
        CompatError: Triton is not installed or has a shape that the shim does not know, or `without` has an
            unknown name. Nothing is changed then.
    """
    from triton_ascend_compat import installer, startup

    if installer.is_imported():
        installer.install(strict, without)
    else:
        installer.remember(strict, without)
    startup.arm()
    return status()


def disable() -> Status:
    """Switch the shim off in this process and put back exactly what was there; also where Triton is not
    imported yet.

    A wrapper that somebody else put on top of ours is left alone: ours goes inert below it, and the
    returned status says so.
    """
    from triton_ascend_compat import installer, startup

    startup.disarm()
    installer.uninstall()
    return status()


def status() -> Status:
    """What a misplaced compile option meets in this process, and why; imports no Triton, changes nothing."""
    from triton_ascend_compat import state

    return state.current()


def report() -> Report:
    """What became of misplaced compile options in this process so far, with counts."""
    from triton_ascend_compat.telling import tally

    return tally.current()


_HOMES = {
    "AbsentOptionWarning": "errors",
    "CompatError": "errors",
    "CompileOptionError": "errors",
    "IneffectiveOptionWarning": "errors",
    "SemanticOptionWarning": "errors",
    "Status": "state",
    "Report": "telling.tally",
    "offline": "offline",  # a module that can be called
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    return module if name == _HOMES[name] else getattr(module, name)
