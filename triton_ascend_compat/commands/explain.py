"""`explain KEY=VALUE`: what happens to it here, wherever it stands, and why."""

from __future__ import annotations

import ast
import json
from typing import Any

import click

from triton_ascend_compat.commands._here import policy
from triton_ascend_compat.decision.plan import Fate, Outcome, Where, judge

_WORDS = {"true": True, "false": False, "none": None, "null": None}


@click.command()
@click.argument("assignment", metavar="KEY=VALUE")
@click.option("--where", type=click.Choice([where.value for where in Where]), help="Tell of this place only.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
def command(assignment: str, where: str | None, as_json: bool) -> None:
    """What happens to compile option KEY with VALUE in an interpreter started like this one, and why.

    VALUE is a Python literal; what is none is a string. Without --where, all places are told of, and the exit
    code is about a kernel's constants.

    \b
    Exit code: 0 it arrives in the compiler; 1 it is left out or refused;
               2 there is no npu backend, or wrong usage.
    """
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"expected KEY=VALUE, such as multibuffer=False, not {assignment!r}")
    here, value = policy(as_it_is=True), _value(text.strip())
    fates = [judge(key.strip(), value, place, here) for place in ([Where(where)] if where else Where)]
    if as_json:
        facts = {"key": key.strip(), "value": repr(value), "release": here.release, **_facts(fates[0])}
        facts["places"] = {fate.where.value: _facts(fate) for fate in fates}
        click.echo(json.dumps(facts, indent=2))
    else:
        click.echo(f"{key.strip()}={value!r} with {here.release}:")
        for fate in fates:
            click.echo(f"  in {fate.where}: {_told(fate)}\n    because: {fate.why}")
    raise SystemExit(0 if _arrives(fates[0]) else 1)


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _arrives(fate: Fate) -> bool:
    return fate.outcome is Outcome.DELIVERED or fate.arrives is not None


def _facts(fate: Fate) -> dict[str, Any]:
    return {
        "outcome": fate.outcome.value,
        "accepted": _arrives(fate),
        "arrives": list(map(repr, fate.arrives)) if fate.arrives else None,
        "quiet": fate.quiet,
        "reason": fate.why,
    }


def _told(fate: Fate) -> str:
    if fate.outcome is Outcome.UNTOUCHED:
        return "is left to Triton"
    if fate.outcome is Outcome.REFUSED:
        return "is refused with an error"
    if fate.outcome is Outcome.IGNORED:
        warned = "without a warning: it asks for nothing" if fate.quiet else "with one warning"
        return f"is left out, {warned}; the kernel is that of a call without it"
    if fate.arrives is None:
        return "is delivered: it asks for nothing"
    name, value = fate.arrives
    return "is delivered" if fate.arrives == (fate.key, fate.value) else f"is delivered as {name}={value!r}"
