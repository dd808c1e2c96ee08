"""The environment variables that tune the shim, read when they are needed."""

from __future__ import annotations

import functools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging

STRICT_VARIABLE = "TRITON_ASCEND_COMPAT_STRICT"
LOG_VARIABLE = "TRITON_ASCEND_COMPAT_LOG"
DISABLE_VARIABLE = "TRITON_ASCEND_COMPAT_DISABLE"
FOREIGN_VARIABLE = "TRITON_ASCEND_COMPAT_FOREIGN"
SUMMARY_VARIABLE = "TRITON_ASCEND_COMPAT_SUMMARY"
LOGGER_NAME = "triton_ascend_compat"

_LEVELS = ("debug", "info", "warning", "error")
_YES = ("1", "true", "yes", "on")
_NO = ("0", "false", "no", "off", "")


def strict_from_environment() -> bool:
    """Whether TRITON_ASCEND_COMPAT_STRICT asks that an option absent here be an error."""
    return _is_yes(STRICT_VARIABLE)


def summary_from_environment() -> bool:
    """Whether TRITON_ASCEND_COMPAT_SUMMARY asks for a summary on stderr when the process ends."""
    return _is_yes(SUMMARY_VARIABLE)


def disabled_from_environment() -> list[str]:
    """The names of fixes that TRITON_ASCEND_COMPAT_DISABLE lists; `-` and `_` are alike."""
    names = os.environ.get(DISABLE_VARIABLE, "").split(",")
    return [name.strip().replace("-", "_") for name in names if name.strip()]


def foreign_file() -> str:
    """The file that TRITON_ASCEND_COMPAT_FOREIGN names; empty where it names none."""
    return os.environ.get(FOREIGN_VARIABLE, "").strip()


def _is_yes(variable: str) -> bool:
    value = os.environ.get(variable, "")
    answer = value.strip().lower()
    if answer not in _YES + _NO:
        _tell_of(variable, value)
    return answer in _YES


@functools.cache
def _tell_of(variable: str, value: str) -> None:
    yes, no = ", ".join(_YES), ", ".join(filter(None, _NO))
    logger().warning("%s=%s is neither yes (%s) nor no (%s): taken as no", variable, value, yes, no)


@functools.cache
def logger() -> logging.Logger:
    """The package's logger. TRITON_ASCEND_COMPAT_LOG=debug|info|warning|error gives it a handler on stderr.

    Without that variable the application's own logging configuration decides, as for any library.
    """
    import logging  # kept out of the start-up path

    log = logging.getLogger(LOGGER_NAME)
    level = os.environ.get(LOG_VARIABLE, "").strip().lower()
    if level and all(handler.name != LOGGER_NAME for handler in log.handlers):
        handler = logging.StreamHandler()
        handler.name = LOGGER_NAME
        handler.setFormatter(logging.Formatter("%(name)s: %(levelname)s: %(message)s"))
        log.addHandler(handler)
        log.propagate = False
        log.setLevel(level.upper() if level in _LEVELS else logging.WARNING)
        if level not in _LEVELS:
            log.warning("%s=%s is none of %s; using warning", LOG_VARIABLE, level, ", ".join(_LEVELS))
    return log
