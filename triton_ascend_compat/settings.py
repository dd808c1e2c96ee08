"""The environment variables that tune the shim, read when they are needed."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

STRICT_VARIABLE = "TRITON_ASCEND_COMPAT_STRICT"
LOG_VARIABLE = "TRITON_ASCEND_COMPAT_LOG"
DISABLE_VARIABLE = "TRITON_ASCEND_COMPAT_DISABLE"
FOREIGN_VARIABLE = "TRITON_ASCEND_COMPAT_FOREIGN"
SUMMARY_VARIABLE = "TRITON_ASCEND_COMPAT_SUMMARY"
LOGGER_NAME = "triton_ascend_compat"

_LEVELS = ("debug", "info", "warning", "error")


def strict_from_environment() -> bool:
    """Whether TRITON_ASCEND_COMPAT_STRICT asks that an option absent here be an error."""
    return _is_set(STRICT_VARIABLE)


def summary_from_environment() -> bool:
    """Whether TRITON_ASCEND_COMPAT_SUMMARY asks for a summary on stderr when the process ends."""
    return _is_set(SUMMARY_VARIABLE)


def disabled_from_environment() -> list[str]:
    """The names of fixes that TRITON_ASCEND_COMPAT_DISABLE lists; `-` and `_` are alike."""
    names = os.environ.get(DISABLE_VARIABLE, "").split(",")
    return [name.strip().replace("-", "_") for name in names if name.strip()]


def foreign_file() -> str:
    """The file that TRITON_ASCEND_COMPAT_FOREIGN names; empty where it names none."""
    return os.environ.get(FOREIGN_VARIABLE, "").strip()


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in ("1", "true", "yes", "on")


@functools.cache
def logger() -> logging.Logger:
    """The package's logger. TRITON_ASCEND_COMPAT_LOG=debug|info|warning|error gives it a handler on stderr.

    Without that variable the application's own logging configuration decides, as for any library.
    """
    import logging  # kept out of the start-up path

    log = logging.getLogger(LOGGER_NAME)
    level = os.environ.get(LOG_VARIABLE, "").strip().lower()
    if level:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(levelname)s: %(message)s"))
        log.addHandler(handler)
        log.propagate = False
        log.setLevel(level.upper() if level in _LEVELS else logging.WARNING)
        if level not in _LEVELS:
            log.warning("%s=%s is none of %s; using warning", LOG_VARIABLE, level, ", ".join(_LEVELS))
    return log
