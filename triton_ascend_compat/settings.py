"""The environment variables that tune the shim, read when they are needed."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

STRICT_VARIABLE = "TRITON_ASCEND_COMPAT_STRICT"
LOG_VARIABLE = "TRITON_ASCEND_COMPAT_LOG"
LOGGER_NAME = "triton_ascend_compat"

_LEVELS = ("debug", "info", "warning", "error")


def strict_from_environment() -> bool:
    """Whether TRITON_ASCEND_COMPAT_STRICT asks that an option absent here be an error."""
    return os.environ.get(STRICT_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")


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
