"""`explain KEY=VALUE`: what would happen to it here, and why, in two lines."""

from __future__ import annotations

import ast
import json
from typing import Any

import click

from triton_ascend_compat import generations, plan, settings
from triton_ascend_compat.commands._here import knowledge
from triton_ascend_compat.events import Outcome
from triton_ascend_compat.plan import Verdict

_WORDS = {"true": True, "false": False, "none": None, "null": None}


@click.command()
@click.argument("assignment", metavar="KEY=VALUE")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of two lines.")
def command(assignment: str, as_json: bool) -> None:
    """What would happen here to compile option KEY with VALUE, misplaced or not, and why.

    VALUE is a Python literal; what is none is a string.

    \b
    Exit code: 0 it would arrive in the compiler; 1 it would be left out or refused;
               2 there is no npu backend, or wrong usage.
    """
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"expected KEY=VALUE, such as multibuffer=False, not {assignment!r}")
    verdict = plan.decide_key(key.strip(), _value(text.strip()), (), *knowledge())
    if as_json:
        facts = {
            "key": verdict.key,
            "value": repr(verdict.value),
            "outcome": verdict.outcome.value,
            "arrives": list(map(repr, verdict.arrives)) if verdict.arrives else None,
            "reason": verdict.reason,
        }
        click.echo(json.dumps(facts, indent=2))
    else:
        click.echo(f"{verdict.key}={verdict.value!r} {_fate(verdict)}")
        click.echo(f"because: {generations.installed_release()}: {verdict.reason}")
    raise SystemExit(0 if verdict.outcome is Outcome.DELIVERED else 1)


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _fate(verdict: Verdict) -> str:
    if verdict.outcome is Outcome.DELIVERED:
        if verdict.arrives is None:
            return "is delivered: it asks for nothing"
        name, value = verdict.arrives
        return "is delivered" if name == verdict.key else f"is delivered as {name}={value!r}"
    if verdict.outcome is Outcome.IGNORED:
        if settings.strict_from_environment():
            return f"is an error ({settings.STRICT_VARIABLE} is set)"
        return "is left out, with one warning; the kernel is that of a call without it"
    if verdict.unknown:
        return "is an error in constants and launches, left out of options= and Config(...) with a warning"
    return "is refused among constants"
