"""The decision, pure: which keys of a kernel's constants are misplaced compile options, and what becomes
of each. Mappings in, a frozen `Plan` out; nothing here imports Triton or has an effect.

To learn what happens to one key, read `decide_key`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from triton_ascend_compat.catalog import KnownOption
from triton_ascend_compat.events import Outcome


@dataclass(frozen=True)
class InstalledOptions:
    """The options that the installed Ascend backend accepts.

    `types` maps the name of each public, settable field of its options dataclass to the type as
    annotated; `retired` are the names it accepts, warns about and drops.
    """

    types: Mapping[str, str]
    retired: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self.types or name in self.retired


@dataclass(frozen=True)
class Verdict:
    """One leaked key, its value as a plain Python value, what becomes of it, and why (one sentence)."""

    key: str
    value: Any
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Plan:
    """`kept`: the constants that stay, in the order they came. `options`: what is delivered.

    `verdicts` has one entry for each leaked key, in the order they came.
    """

    kept: Mapping[Any, Any]
    options: Mapping[str, Any]
    verdicts: tuple[Verdict, ...]


def leaked_keys(constants: Iterable[Any], parameters: Collection[str]) -> list[str]:
    """The `str` keys of `constants` that are no kernel parameter. Int and tuple keys are never touched."""
    return [key for key in constants if isinstance(key, str) and key not in parameters]


def decide(
    constants: Mapping[Any, Any],
    parameters: Collection[str],
    installed: InstalledOptions,
    known: Mapping[str, KnownOption],
) -> Plan:
    """Split `constants` into what stays and what becomes of each leaked key.

    Args:
        constants: the kernel's compile-time constants, as the frontend gave them.
        parameters: the kernel's parameter names (`fn.arg_names`).
        installed: the options of the backend that will compile.
        known: the options that any public release has had, by name.
    """
    kept: dict[Any, Any] = {}
    verdicts = []
    for key, value in constants.items():
        if isinstance(key, str) and key not in parameters:
            verdicts.append(decide_key(key, plain_value(value), parameters, installed, known))
        else:
            kept[key] = value
    options = {v.key: v.value for v in verdicts if v.outcome is Outcome.DELIVERED}
    return Plan(kept, options, tuple(verdicts))


def decide_key(
    key: str,
    value: Any,
    parameters: Collection[str],
    installed: InstalledOptions,
    known: Mapping[str, KnownOption],
) -> Verdict:
    """What becomes of one leaked key whose plain value is `value`."""
    if key in installed.types:
        expected = installed.types[key]
        if fits(value, expected):
            return Verdict(key, value, Outcome.DELIVERED, "a compile option of the installed backend")
        return Verdict(
            key,
            value,
            Outcome.REFUSED,
            f"compile option {key!r} takes {expected}, not {value!r} ({type(value).__name__})",
        )
    if key in installed.retired:
        return Verdict(
            key, value, Outcome.DELIVERED, "the installed backend accepts this name and retires it"
        )
    if key in known:
        return Verdict(
            key, value, Outcome.IGNORED, f"known from {releases_of(known[key])}, not installed here"
        )
    nearest = nearest_names(key, {*installed.types, *installed.retired, *known, *parameters})
    hint = f"; nearest known names: {', '.join(nearest)}" if nearest else ""
    return Verdict(
        key,
        value,
        Outcome.REFUSED,
        f"{key!r} is not in list: neither a kernel parameter nor a compile option of any known "
        f"triton-ascend release{hint}",
    )


def nearest_names(name: str, candidates: Iterable[str]) -> list[str]:
    """Up to three of `candidates` that `name` may be a misspelling of, nearest first."""
    import difflib  # only an error needs it

    return difflib.get_close_matches(name, sorted(candidates), n=3, cutoff=0.7)


_PLAIN = frozenset({bool, int, float, str, type(None)})


def plain_value(value: Any) -> Any:
    """`value` without its `tl.constexpr` or NumPy scalar wrapping; anything else as it is.

    Options feed the kernel's hash (through `str`) and its JSON metadata, where a wrapped value would
    differ from the plain one. Recognized by type name, so that neither package is needed here.
    """
    if type(value) in _PLAIN:
        return value
    while any(base.__name__ == "constexpr" for base in type(value).__mro__) and hasattr(value, "value"):
        value = value.value
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return value.item()
    return value


#: Annotation -> the Python types whose values it admits. An annotation that is not here admits anything:
#: a value is refused only where the type plainly excludes it.
_ADMITS: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "tuple": (tuple, list),
    "list": (tuple, list),
    "dict": (dict, tuple, list),
}


def fits(value: Any, annotation: str) -> bool:
    """Whether an option annotated with `annotation` may hold `value`.

    None fits everywhere: triton-ascend annotates `x: bool = None` and reads None as "not set". 0 and 1
    fit a bool, since autotune spaces are often written in ints.
    """
    if value is None:
        return True
    admitted = _ADMITS.get(_bare_type(annotation))
    if admitted is None:
        return True
    return isinstance(value, admitted) or (admitted == (bool,) and type(value) is int and value in (0, 1))


@functools.cache
def _bare_type(annotation: str) -> str:
    """`typing.Optional[Tuple[str]]` -> `tuple`."""
    bare = annotation.replace("typing.", "").replace(" ", "")
    if bare.startswith("Optional[") and bare.endswith("]"):
        bare = bare[len("Optional[") : -1]
    alternatives = [part for part in bare.split("|") if part != "None"]
    if len(alternatives) != 1:
        return ""
    return alternatives[0].partition("[")[0].lower()


def releases_of(option: KnownOption) -> str:
    """The releases that have `option`, for a message."""
    return ", ".join([*option.releases, *(f"{release} (accepted and dropped)" for release in option.retired)])
