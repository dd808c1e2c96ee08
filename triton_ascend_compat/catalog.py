"""What is known of compile options beyond the installed backend: data, loaded when a misplaced key needs it.

catalog.json   the options of triton-ascend, by release
renames.json   those that triton-ascend renamed with the meaning unchanged
foreign.json   those of other Triton backends; a user's file extends it
frontends.json what frontends pass by themselves
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class KnownOption:
    """What is known of one option name.

    `type` is the annotation in the newest release that states one. `releases` have it as a field that
    a caller may set; the backends of `retired` accept the name, warn about it and drop it.
    """

    name: str
    type: str | None
    releases: tuple[str, ...]
    retired: tuple[str, ...]


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


@dataclass(frozen=True)
class ForeignOption:
    """An option of another Triton backend: whose it is, and the value that asks for nothing (None where no
    value is known to)."""

    owner: str
    off: Any = None


@functools.cache
def known_options() -> Mapping[str, KnownOption]:
    """Every option that some public triton-ascend release or branch has had, by name.

    Source: `catalog.json` beside this module, which names the release and commit of each fact.
    """
    return {
        name: KnownOption(
            name, facts.get("type"), tuple(facts.get("releases", ())), tuple(facts.get("retired", ()))
        )
        for name, facts in _load("catalog.json")["options"].items()
    }


def releases() -> tuple[str, ...]:
    """The releases and branches of triton-ascend that `known_options` speaks of, oldest first."""
    return tuple(source["release"] for source in _load("catalog.json")["sources"])


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


def foreign_options() -> Mapping[str, ForeignOption]:
    """Options of other Triton backends, by name: those in `foreign.json`, and those in the file that
    TRITON_ASCEND_COMPAT_FOREIGN names, a JSON object of names and whose they are."""
    from triton_ascend_compat import settings

    return _foreign_options(settings.foreign_file())


@functools.cache
def _foreign_options(users_file: str) -> Mapping[str, ForeignOption]:
    data = _load("foreign.json")
    off = data["off"]["values"]
    options = {
        name: ForeignOption(owner, off.get(name)) for owner, names in data["owners"].items() for name in names
    }
    if users_file:
        try:
            options.update(
                {name: ForeignOption(owner) for name, owner in _read_users_file(users_file).items()}
            )
        except (OSError, ValueError) as error:
            from triton_ascend_compat import settings

            settings.logger().warning(
                "%s=%s is not used: %s; expected a JSON object like %s",
                settings.FOREIGN_VARIABLE,
                users_file,
                str(error).splitlines()[0],
                '{"some_option": "whose it is"}',
            )
    return options


@functools.cache
def frontend_values() -> Mapping[str, tuple[Any, ...]]:
    """What frontends pass in `options=` without having been asked (`frontends.json`): name -> values."""
    return {name: tuple(values) for name, values in _load("frontends.json")["values"].items()}


def _read_users_file(path: str) -> dict[str, str]:
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"it holds a {type(data).__name__}")  # noqa: TRY004 - a wrong file, not a wrong call
    wrong = [name for name, owner in data.items() if not isinstance(owner, str)]
    if wrong:
        raise ValueError(f"the owner of {wrong[0]!r} is no string")
    return data


def _load(name: str) -> Any:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
