"""What the commands about options share: the knowledge of this installation, or one line on what is wrong."""

from __future__ import annotations

import click

from triton_ascend_compat import generations, settings
from triton_ascend_compat.fixes import NAMES
from triton_ascend_compat.knowledge import Knowledge, gather


class CannotTell(click.ClickException):
    """There is nothing to ask here; exit code 2, apart from an answer that is no."""

    exit_code = 2


def knowledge() -> Knowledge:
    """What is known here, with the fixes on that the environment leaves on.

    Raises:
        CannotTell: Triton cannot be imported, or has no npu backend.
    """
    try:
        import triton  # noqa: F401
    except Exception as error:
        first_line = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CannotTell(
            f"triton cannot be imported: {first_line}{generations.overwritten_installation()}"
        ) from error
    known = gather(NAMES.difference(settings.disabled_from_environment()))
    if known is None:
        raise CannotTell(f"{generations.installed_release()} has no backend for target npu")
    return known
