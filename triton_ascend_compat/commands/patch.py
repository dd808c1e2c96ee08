"""`triton-ascend-compat patch`: the patched install, for those who cannot load a package at run time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click

from triton_ascend_compat.patching import operations
from triton_ascend_compat.patching.errors import PatchError, UnfinishedError
from triton_ascend_compat.patching.files import describe
from triton_ascend_compat.patching.operations import Condition, Result
from triton_ascend_compat.patching.site import find_site

REFUSED, INTERRUPTED, CTRL_C = 3, 4, 130
_CHECKED = {Condition.PATCHED: 0, Condition.NOT_PATCHED: 1, Condition.INTERRUPTED: INTERRUPTED}


_site = click.option(
    "--site",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder that holds the triton package (a site-packages). Default: this environment's.",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Print the changes as a diff and make none.")


@click.group("patch")
def command() -> None:
    """Patch the installed triton-ascend itself, so that nothing needs to be loaded at run time.

    Exit codes: 0 done, or already so (check: patched); 1 check: not patched; 2 wrong usage; 3 refused or
    failed, with nothing changed; 4 this run or an earlier one ended half-way, and the next apply or revert
    undoes it; 130 Ctrl-C, check tells the state.
    """


@command.command("check")
@_site
def check_command(site: Path | None) -> None:
    """Tell whether triton-ascend is patched, or could be. Changes nothing."""
    with _failures():
        result = operations.check(find_site(site))
    _say(result)
    raise SystemExit(_CHECKED[result.condition])


@command.command("apply")
@_site
@_dry_run
def apply_command(site: Path | None, dry_run: bool) -> None:
    """Patch triton-ascend: all files or none. Doing it twice is doing it once."""
    with _failures():
        place = find_site(site)
        if not dry_run and operations.check(place).condition is Condition.INTERRUPTED:
            _say(operations.revert(place))
        result = operations.apply(place, dry_run)
    _say(result)


@command.command("revert")
@_site
@_dry_run
def revert_command(site: Path | None, dry_run: bool) -> None:
    """Put the original files back, byte for byte."""
    with _failures():
        result = operations.revert(find_site(site), dry_run)
    _say(result)


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """One line on stderr for whatever fails, and the exit code that goes with it."""
    try:
        yield
    except UnfinishedError as error:
        _fail(str(error), INTERRUPTED)
    except (PatchError, OSError) as error:
        _fail(f"{describe(error)}; nothing was changed", REFUSED)
    except KeyboardInterrupt:
        _fail("interrupted: 'patch check' tells the state", CTRL_C)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(code) from None


def _say(result: Result) -> None:
    """The diff alone goes to stdout, so that it can be piped into a file or a pager."""
    with contextlib.suppress(OSError):  # nobody reads; what is done is done
        click.echo(result.diff, nl=False)
        for line in result.lines:
            click.echo(line, err=bool(result.diff))
