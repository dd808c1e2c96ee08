"""`status`: what the shim does in an interpreter started like this one, and why."""

from __future__ import annotations

import json

import click

import triton_ascend_compat
from triton_ascend_compat import generations


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(as_json: bool) -> None:
    """Which Triton, generation and backend are here, and whether the shim is active.

    \b
    Exit code: 0 the shim is active, or this Triton needs none;
               1 it is not active (the reason is printed); 2 wrong usage.
    """
    import_error = _import_triton()
    status = triton_ascend_compat.status()
    facts = {**status.as_dict(), "import_error": import_error}
    if as_json:
        click.echo(json.dumps(facts, indent=2))
    else:
        _print_table(facts)
    raise SystemExit(0 if status.active or not status.needed else 1)


def _import_triton() -> str | None:
    """Import Triton as a program would; returns what was wrong, in one line."""
    try:
        import triton  # noqa: F401
    except Exception as error:
        first_line = f"{type(error).__name__}: {error}".splitlines()[0]
        return f"{first_line}{generations.overwritten_installation()}"
    return None


def _print_table(facts: dict[str, object]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    wrapped = facts["wrapped"]
    assert isinstance(wrapped, tuple)
    rows = {
        "active": "yes" if facts["active"] else "no",
        "why": facts["reason"],
        "Triton": facts["triton"] or facts["import_error"],
        "found in": facts["triton_path"],
        "generation": facts["generation"],
        "npu backend": facts["backend"],
        "compile options": f"{facts['options']} accepted, {facts['retired']} accepted and dropped",
        "strict": "yes" if facts["strict"] else "no",
        "wrapped": ", ".join(wrapped),
        "TRITON_PLUGIN": facts["plugin"],
        "start-up": facts["startup"],
    }
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(str(value) if value else "-"))  # Text: brackets are no markup here
    fixes = facts["fixes"]
    assert isinstance(fixes, tuple)
    for number, fix in enumerate(fixes):
        state = "on" if fix["on"] else f"off: {fix['off_because']}"
        table.add_row("" if number else "fixes", f"{fix['name']} ({state})")
    Console().print(table)
