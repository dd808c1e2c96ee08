"""What the commands about options share: what decides here, or one line on what is wrong."""

from __future__ import annotations

import click

from triton_ascend_compat import generations, installation, settings, shim, state
from triton_ascend_compat.decision.policy import Policy
from triton_ascend_compat.fixes import FIXES, NAMES
from triton_ascend_compat.shim import Switch


class CannotTell(click.ClickException):
    """There is nothing to ask here; exit code 2, apart from an answer that is no."""

    exit_code = 2


def policy(as_it_is: bool) -> Policy:
    """What decides here.

    Args:
        as_it_is: with what is switched on in this interpreter, which started like any other; else as if the
            shim were on, but for the fixes that the environment switches off.

    Raises:
        CannotTell: Triton cannot be imported, or has no npu backend.
    """
    try:
        import triton  # noqa: F401
    except Exception as error:
        raise CannotTell(f"triton cannot be imported: {installation.import_failure(error)}") from error
    switch = shim.switch
    if as_it_is and not switch.fixes:
        off = f"the shim is not active ({state.current().reason})"
        switch = Switch(off=dict.fromkeys((fix.name for fix in FIXES), off), generation=_generation())
    elif not as_it_is:
        without = dict.fromkeys(settings.disabled_from_environment(), settings.DISABLE_VARIABLE)
        switch = Switch(True, frozenset(NAMES) - without.keys(), without=without)
    found = switch.policy()
    if found is None:
        raise CannotTell(f"{generations.installed_release()} has no backend for target npu")
    return found


def _generation() -> generations.Generation | None:
    try:
        return generations.detect()
    except Exception:  # a Triton that the shim does not know delivers nothing that we know of
        return None
