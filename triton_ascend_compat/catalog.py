"""The known compile options of triton-ascend, by release: data, loaded when the first leaked key needs it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


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


@functools.cache
def known_options() -> Mapping[str, KnownOption]:
    """Every option that some public triton-ascend release or branch has had, by name.

    Source: `catalog.json` beside this module, which names the release and commit of each fact.
    """
    data = json.loads(Path(__file__).with_name("catalog.json").read_text(encoding="utf-8"))
    return {
        name: KnownOption(
            name, facts.get("type"), tuple(facts.get("releases", ())), tuple(facts.get("retired", ()))
        )
        for name, facts in data["options"].items()
    }
