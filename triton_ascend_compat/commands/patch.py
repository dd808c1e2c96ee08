"""`triton-ascend-compat patch`: the patched install, for those who cannot load a package at run time.

Exit codes: 0 done, or already so (check: patched); 1 check: not patched; 2 wrong usage; 3 refused, nothing
was changed; 4 check: an earlier run was interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import click

from triton_ascend_compat.patching import operations
from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.operations import Condition, Result
from triton_ascend_compat.patching.site import find_site

NOT_PATCHED, REFUSED, INTERRUPTED = 1, 3, 4


class _Refused(click.ClickException):
    exit_code = REFUSED


_site = click.option(
    "--site",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder that holds the triton package (a site-packages). Default: this environment's.",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Print the changes as a diff and make none.")


@click.group("patch")
def command() -> None:
    """Patch the installed triton-ascend itself, so that nothing needs to be loaded at run time.

    Exit codes: 0 done, or already so (check: patched); 1 check: not patched; 2 wrong usage; 3 refused, with
    nothing changed; 4 check: an earlier run was interrupted, and the next apply or revert undoes it.
    """


@command.command("check")
@_site
def check_command(site: Path | None) -> None:
    """Tell whether triton-ascend is patched, or could be. Changes nothing."""
    result = _run(lambda: operations.check(find_site(site)))
    if result.condition is Condition.NOT_PATCHED:
        raise SystemExit(NOT_PATCHED)
    if result.condition is Condition.INTERRUPTED:
        raise SystemExit(INTERRUPTED)


@command.command("apply")
@_site
@_dry_run
def apply_command(site: Path | None, dry_run: bool) -> None:
    """Patch triton-ascend: all files or none. Doing it twice is doing it once."""
    _run(lambda: operations.apply(find_site(site), dry_run))


@command.command("revert")
@_site
@_dry_run
def revert_command(site: Path | None, dry_run: bool) -> None:
    """Put the original files back, byte for byte."""
    _run(lambda: operations.revert(find_site(site), dry_run))


def _run(operation: Callable[[], Result]) -> Result:
    try:
        result = operation()
    except PatchError as error:
        raise _Refused(str(error)) from None
    # The diff alone goes to stdout, so that it can be piped into a file or a pager.
    click.echo(result.diff, nl=False)
    for line in result.lines:
        click.echo(line, err=bool(result.diff))
    return result
