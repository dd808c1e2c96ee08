"""The decision, pure: which keys are misplaced compile options, and what becomes of each. Mappings in,
frozen records out; nothing here imports Triton or has an effect.

`decide` serves a kernel's constants, `decide_strays` what stands among options and is none of this backend.
To learn what happens to one key, read `decide_key`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from triton_ascend_compat.decision.catalogue import ForeignOption, KnownOption, Rename
from triton_ascend_compat.events import Outcome

#: No foreign options.
_NOTHING: Mapping[str, ForeignOption] = MappingProxyType({})

#: In the place of a value: the option asks for nothing, so that there is nothing to deliver.
_OFF = object()


@dataclass(frozen=True)
class InstalledOptions:
    """The options that the installed Ascend backend accepts.

    `types` maps the name of each public, settable field of its options dataclass to the type as
    annotated, `defaults` to its value where nothing is asked for. `retired` are the names that it accepts,
    warns about and drops, `renamed` those that it turns into others itself. `internal` are the names that it
    sets itself: no caller's, but its own parsed options hold them when they are parsed again.
    """

    types: Mapping[str, str]
    retired: frozenset[str] = frozenset()
    renamed: frozenset[str] = frozenset()
    internal: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.types or name in self.retired or name in self.renamed


class Verdict(NamedTuple):
    """One misplaced key, its value as a plain Python value, what becomes of it, and why (one sentence).

    `arrives` is the option as which it is delivered; None where it is not, or asks for nothing under its
    present name. `unknown` says that it is refused because nobody knows the name; `hint` then tells the
    nearest names that somebody knows. `quiet` says that its being left out is no news, since it asks for
    nothing.
    """

    key: str
    value: Any
    outcome: Outcome
    reason: str
    arrives: tuple[str, Any] | None = None
    unknown: bool = False
    hint: str = ""
    quiet: bool = False


class Plan(NamedTuple):
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
    renames: Sequence[Rename] = (),
    foreign: Mapping[str, ForeignOption] = _NOTHING,
) -> Plan:
    """Split `constants` into what stays and what becomes of each leaked key.

    Args:
        constants: the kernel's compile-time constants, as the frontend gave them.
        parameters: the kernel's parameter names (`fn.arg_names`).
        installed: the options of the backend that will compile.
        known: the options that any public release has had, by name.
        renames: the options that have had two names.
        foreign: the options of other Triton backends, by name.
    """
    kept: dict[Any, Any] = {}
    verdicts = []
    for key, value in constants.items():
        if isinstance(key, str) and key not in parameters:
            verdicts.append(
                decide_key(key, plain_value(value), parameters, installed, known, renames, foreign)
            )
        else:
            kept[key] = value
    settled, options = _settle(verdicts, {})
    return Plan(kept, options, settled)


def decide_strays(
    strays: Collection[str],
    given: Mapping[str, Any],
    parameters: Collection[str],
    installed: InstalledOptions,
    known: Mapping[str, KnownOption],
    renames: Sequence[Rename] = (),
    foreign: Mapping[str, ForeignOption] = _NOTHING,
) -> tuple[tuple[Verdict, ...], dict[str, Any]]:
    """What becomes of options that the installed backend has not; returns the verdicts, and what is to be
    added to the options.

    Args:
        strays: the keys of `given` that are to be decided.
        given: all options of the call (or all its keyword arguments).
        parameters, installed, known, renames, foreign: as in `decide`.
    """
    verdicts = [
        decide_key(key, plain_value(given[key]), parameters, installed, known, renames, foreign)
        for key in given
        if key in strays
    ]
    return _settle(verdicts, {key: plain_value(given[key]) for key in given if key in installed.types})


def _settle(
    verdicts: Iterable[Verdict], standing: Mapping[str, Any]
) -> tuple[tuple[Verdict, ...], dict[str, Any]]:
    """Refuse what arrives as an option that has another value already, and collect what arrives."""
    settled = []
    options: dict[str, Any] = {}
    sources = {name: name for name in standing}
    for verdict in verdicts:
        if verdict.arrives is not None:
            name, value = verdict.arrives
            present = options.get(name, standing.get(name))
            if name in sources and present != value:
                verdict = verdict._replace(
                    outcome=Outcome.REFUSED,
                    arrives=None,
                    reason=f"{verdict.key}={verdict.value!r} and {sources[name]} are the same compile option "
                    f"under two names and differ (here it is {name}: {value!r}, {present!r})",
                )
            else:
                sources.setdefault(name, verdict.key)
                options[name] = value
        settled.append(verdict)
    return tuple(settled), {name: value for name, value in options.items() if name not in standing}


def decide_key(
    key: str,
    value: Any,
    parameters: Collection[str],
    installed: InstalledOptions,
    known: Mapping[str, KnownOption],
    renames: Sequence[Rename] = (),
    foreign: Mapping[str, ForeignOption] = _NOTHING,
) -> Verdict:
    """What becomes of one misplaced key whose plain value is `value`."""
    if key in installed.types:
        return _deliver(key, value, key, value, installed, "a compile option of the installed backend")
    if key in installed.renamed:
        why = "the installed backend accepts this name and renames it"
        return Verdict(key, value, Outcome.DELIVERED, why, (key, value))
    if key in installed.retired:
        why = "the installed backend accepts this name and retires it"
        return Verdict(key, value, Outcome.DELIVERED, why, (key, value))
    renamed = _present_name(key, value, installed, renames)
    if renamed is not None:
        name, arriving = renamed
        why = f"called {name} in the installed backend"
        if arriving is _OFF:
            return Verdict(key, value, Outcome.DELIVERED, f"{why}, where it asks for nothing")
        return _deliver(key, value, name, arriving, installed, why)
    if key in foreign:
        why = f"a compile option of {foreign[key].owner}"
        return Verdict(key, value, Outcome.IGNORED, why, quiet=value == foreign[key].off)
    if key in known:
        why = f"known from {known[key].seen_in}, not installed here"
        return Verdict(key, value, Outcome.IGNORED, why)
    others = {rename.new for rename in renames if rename.old == key}
    if others:
        why = f"an older name of {', '.join(sorted(others))}, which is not installed here either"
        return Verdict(key, value, Outcome.IGNORED, why)
    hint = _hint(key, {*installed.types, *installed.retired, *known, *foreign, *parameters})
    why = (
        f"{key!r} is not in list: neither a kernel parameter nor a compile option of any known "
        f"triton-ascend release{hint}"
    )
    return Verdict(key, value, Outcome.REFUSED, why, unknown=True, hint=hint)


def _deliver(
    key: str, value: Any, name: str, arriving: Any, installed: InstalledOptions, why: str
) -> Verdict:
    """Deliver `key` as option `name`, unless the option's type excludes the value."""
    expected = installed.types[name]
    if fits(arriving, expected):
        return Verdict(key, value, Outcome.DELIVERED, why, (name, arriving))
    why = f"compile option {name!r} takes {expected}, not {arriving!r} ({type(arriving).__name__})"
    return Verdict(key, value, Outcome.REFUSED, why if name == key else f"{key}: {why}")


def _present_name(
    key: str, value: Any, installed: InstalledOptions, renames: Iterable[Rename]
) -> tuple[str, Any] | None:
    """What the installed backend calls option `key`, and the value there; None where it has none."""
    for rename in renames:
        if key == rename.old and rename.new in installed.types:
            pairs, name = rename.values, rename.new
        elif key == rename.new and rename.old in installed.types:
            pairs, name = tuple((new, old) for old, new in rename.values), rename.old
        else:
            continue
        if not pairs:
            return name, value
        if value is None or value in rename.off:
            return name, _OFF
        for here, there in pairs:
            if here == value:
                return name, there
    return None


def _hint(key: str, candidates: Collection[str]) -> str:
    """What to add to an error about `key`, which is none of `candidates`."""
    base, _, number = key.rpartition("_")
    if number.isdigit() and (base in candidates or base.isupper()):
        return f"; it has the form of a combo kernel's parameter ({base} of sub-kernel {number})"
    nearest = nearest_names(key, candidates)
    return f"; nearest known names: {', '.join(nearest)}" if nearest else ""


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
