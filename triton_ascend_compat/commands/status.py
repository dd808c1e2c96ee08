"""`status`: what a misplaced option meets in an interpreter started like this one, and why."""

from __future__ import annotations

import json

import click

import triton_ascend_compat
from triton_ascend_compat import installation


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def command(as_json: bool) -> None:
    """Whether leaked options are delivered here, by whom, in which Triton, and why.

    \b
    Exit code: 0 they are, by the shim or by this Triton itself;
               1 they are not (the reason says what to do); 2 wrong usage.
    """
    import_error = None
    try:
        import triton  # noqa: F401
    except Exception as error:
        import_error = installation.import_failure(error)
    status = triton_ascend_compat.status()
    if as_json:
        click.echo(json.dumps({**status.as_dict(), "import_error": import_error}, indent=2))
    else:
        click.echo(status)
        if import_error is not None:
            click.echo(f"{'import triton':16} {import_error}")
    raise SystemExit(0 if status.active else 1)
