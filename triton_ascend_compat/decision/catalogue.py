"""What is known of compile options beyond the installed backend: data, loaded when a misplaced key needs it.

catalogue.json  the options of triton-ascend, by release, and which of them change what a kernel means
renames.json    those, and those values, that triton-ascend renamed with the meaning unchanged
frontends.json  what frontends pass by themselves
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from triton_ascend_compat.decision.foreign import ForeignOption as ForeignOption
from triton_ascend_compat.decision.foreign import foreign_options as foreign_options

Kind = Literal["tuning", "semantic", "debug", "target"]


@dataclass(frozen=True)
class KnownOption:
    """What is known of one option name. A release is named as in `releases()`.

    Args:
        name: the option.
        type: its annotation in the newest release that has it; None where none states one.
        releases: those in which a caller may set it.
        ignored: those whose backend accepts the name, warns about it, and drops it or turns it into another.
        internal: those whose backend sets it itself (a derived field or an InitVar).
        kind: `semantic` where it changes what a kernel computes or how it synchronises; `target` where it
            describes the chip or the launch; else `debug` or `tuning`.
        default: its default in the newest release that has it, as Python text.
        meaning: of a semantic option, what it changes.
        instead: where a kernel that asks for it can be wrong without it, what to do on a release that lacks
            it; empty where a kernel is right without it.
        off: the values that ask for nothing: None (triton-ascend's "not set"), a default that all releases
            share, and what the data say.
    """

    name: str
    type: str | None
    releases: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    internal: tuple[str, ...] = ()
    kind: Kind = "tuning"
    default: str | None = None
    meaning: str = ""
    instead: str = ""
    off: tuple[Any, ...] = (None,)

    @property
    def needed(self) -> bool:
        """Whether a kernel that asks for it can be wrong without it."""
        return bool(self.instead)

    @property
    def seen_in(self) -> str:
        """The releases that have it, for a message: of the states of main the newest only."""
        named = self.releases or self.ignored or self.internal
        on_main = [release for release in named if release.startswith("main")]
        return ", ".join([release for release in named if release not in on_main[:-1]])


@dataclass(frozen=True)
class Rename:
    """One option under two names.

    `values` pairs values of the old option with values of the new one; empty where they are the same.
    `off` are the values of either that ask for nothing.
    """

    old: str
    new: str
    values: tuple[tuple[Any, Any], ...] = ()
    off: tuple[Any, ...] = ()


class Spelling(NamedTuple):
    """One value of an option in two spellings."""

    option: str
    old: str
    new: str


@functools.cache
def known_options() -> Mapping[str, KnownOption]:
    """Every option that some public triton-ascend release or branch has had, by name.

    Source: `catalogue.json` beside this module, which names the release and commit of each fact.
    """
    return {name: _known(name, facts) for name, facts in _load("catalogue.json")["options"].items()}


def _known(name: str, facts: Mapping[str, Any]) -> KnownOption:
    states = facts["states"]
    default, text = _plain(facts["default"])
    agreed = () if default is None or "defaults" in facts else (default,)
    return KnownOption(
        name,
        facts["type"],
        releases=tuple(states.get("option", ())),
        ignored=tuple(states.get("ignored", ())),
        internal=tuple(states.get("initvar", ())) + tuple(states.get("derived", ())),
        kind=facts["kind"],
        default=text,
        meaning=facts.get("meaning", ""),
        instead=facts.get("instead", ""),
        off=(None, *facts.get("off", agreed)),
    )


def _plain(default: Any) -> tuple[Any, str]:
    """A default of the data as a value (None for an expression, which may depend on the chip) and as text."""
    if isinstance(default, dict):
        return None, default["expression"]
    value = tuple(default) if isinstance(default, list) else default
    return value, repr(value)


def releases() -> tuple[str, ...]:
    """The releases and branches of triton-ascend that `known_options` speaks of, each line oldest first."""
    return tuple(source["release"] for source in _load("catalogue.json")["sources"])


@functools.cache
def renames() -> tuple[Rename, ...]:
    """The options that triton-ascend renamed, with the meaning unchanged (`renames.json`)."""
    return tuple(
        Rename(
            facts["old"],
            facts["new"],
            tuple((old, new) for old, new in facts.get("values", ())),
            tuple(facts.get("off", ())),
        )
        for facts in _load("renames.json")["renames"]
    )


def spellings() -> tuple[Spelling, ...]:
    """The values that triton-ascend respelled, with the meaning unchanged (`renames.json`)."""
    return tuple(Spelling(**facts) for facts in _load("renames.json")["spellings"])


@functools.cache
def frontend_values() -> Mapping[str, tuple[Any, ...]]:
    """What frontends pass in `options=` without having been asked (`frontends.json`): name -> values."""
    return {name: tuple(values) for name, values in _load("frontends.json")["values"].items()}


def _load(name: str) -> Any:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
