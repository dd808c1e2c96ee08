"""`options`: what this installation accepts, and where an option that is misplaced goes."""

from __future__ import annotations

import json
from string import ascii_lowercase
from typing import Any

import click

from triton_ascend_compat import generations
from triton_ascend_compat.commands._here import CannotTell, policy
from triton_ascend_compat.decision import catalogue, plan
from triton_ascend_compat.decision.plan import Outcome, Where
from triton_ascend_compat.decision.policy import Policy


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Those of other releases and other backends too.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def command(names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """The compile options of the installed triton-ascend, or what is known of each NAME.

    \b
    Exit code: 0 printed; 2 a NAME is known to nobody, Triton has no npu backend, or wrong usage.
    """
    known = policy(as_it_is=False)
    everyone = _names(known, everything=True)
    for name in names:
        if name not in everyone:
            nearest = plan.nearest_names(name, everyone)
            hint = f"; nearest: {', '.join(nearest)}" if nearest else ""
            raise CannotTell(f"no triton-ascend release has had a compile option {name!r}{hint}")
    rows = [_row(name, known) for name in names or sorted(_names(known, everything))]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        _print_table(rows)


def _names(known: Policy, everything: bool) -> set[str]:
    installed = known.installed
    accepted = {*installed.types, *installed.retired, *installed.renamed}
    if not everything:
        return accepted
    old = {rename.old for rename in known.renames}
    return accepted | installed.internal | old | known.known.keys() | known.foreign.keys()


def _row(name: str, known: Policy) -> dict[str, Any]:
    facts = known.known.get(name)
    installed = known.installed
    default = repr(installed.defaults[name]) if name in installed.defaults else None
    # None fits every type: the decision is about the name.
    fate = plan.judge(name, None, Where.CONSTANTS, known)
    return {
        "name": name,
        "installed": name in installed.types,
        "kind": facts.kind if facts else None,
        "meaning": facts.meaning if facts else "",
        "needed": facts.needed if facts else False,
        "type": installed.types.get(name, facts.type if facts else None),
        "default": facts.default if default is None and facts else default,
        "releases": list(facts.releases) if facts else [],
        "retired": list(facts.ignored) if facts else [],
        "internal": list(facts.internal) if facts else [],
        "misplaced": {
            "outcome": fate.outcome.value,
            "as": fate.option if fate.option != name and fate.outcome is Outcome.DELIVERED else None,
            "reason": fate.why,
        },
    }


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    letters = dict(zip(catalogue.releases(), ascii_lowercase))
    click.echo(generations.installed_release())
    click.echo(f"releases: {', '.join(f'{letter} {release}' for release, letter in letters.items())}")
    click.echo("          (in parentheses: accepts the name and drops it; in brackets: sets it itself)")
    click.echo("kind:     semantic: changes what a kernel means; needed: a kernel can be wrong without it\n")
    table = Table(box=None, pad_edge=False)
    table.add_column("name", overflow="fold", max_width=34)  # longer ones are few; 80 columns are many
    for heading in ("kind", "type", "default", "releases", "misplaced"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "releases")
    for row in rows:
        goes = row["misplaced"]
        told = goes["outcome"] if goes["outcome"] == "delivered" else f"{goes['outcome']}: {goes['reason']}"
        if goes["as"]:
            told += f" as {goes['as']}"
        elif not row["installed"] and goes["outcome"] == "delivered":
            told += f": {goes['reason']}"
        releases = "".join(_mark(release, letter, row) for release, letter in letters.items())
        cells = (
            row["name"],
            "needed" if row["needed"] else row["kind"] or "-",
            (row["type"] or "-").replace("typing.", ""),
            row["default"] or "-",
            releases,
            told,
        )
        table.add_row(*map(Text, cells))  # Text: brackets are no markup here
    Console().print(table)


def _mark(release: str, letter: str, row: dict[str, Any]) -> str:
    """The column of one release: its letter where it has the option."""
    if release in row["retired"]:
        return f"({letter})"
    if release in row["internal"]:
        return f"[{letter}]"
    return letter if release in row["releases"] else "-"
