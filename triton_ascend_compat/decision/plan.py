"""The decision, pure: what becomes of each key that an engineer or a frontend asked for. Mappings in, frozen
records out; nothing here imports Triton or has an effect.

`decide` is the only code that judges; to learn what happens to one key, read `judge`. Delivering, warning,
refusing, counting, `explain` and the offline reports read its fates.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from triton_ascend_compat.decision.policy import About, Policy


class Outcome(str, Enum):
    """What became of one key."""

    __hash__ = str.__hash__  # as below

    DELIVERED = "delivered"
    """It arrives in the options that the backend parses."""
    IGNORED = "ignored"
    """It is left out: it is known, but no option of this installation."""
    REFUSED = "refused"
    """Nobody knows it, its value does not fit, or the kernel can be wrong without it: an error."""
    UNTOUCHED = "untouched"
    """It stays where it stood, and Triton does with it what it does without this layer."""


class Where(str, Enum):
    """Where a key stood; `str()` of it is for messages."""

    __hash__ = str.__hash__  # Enum's own is slower than all else on the way of an event

    CONSTANTS = "constants"
    LAUNCH = "launch"
    OPTIONS = "options"
    CONFIG = "config"
    INTERPRETER = "interpreter"

    def __str__(self) -> str:
        return _PLACES[self]


_PLACES = {
    Where.CONSTANTS: "the constants",
    Where.LAUNCH: "the launch",
    Where.OPTIONS: "options=",
    Where.CONFIG: "triton.Config(...)",
    Where.INTERPRETER: "the launch (interpreter)",
}


class Kind(Enum):
    """What a name is, to the installed backend."""

    INSTALLED = "a field of its options that a caller may set"
    PASSED_ON = "a name that it takes itself, to rename or to retire it"
    RENAMED = "an option that it has under another name"
    INTERNAL = "a field of its options that it sets itself"
    FOREIGN = "an option of another Triton backend"
    ABSENT = "an option that only other triton-ascend releases have"
    UNKNOWN = "nobody's option"


class Fate(NamedTuple):
    """One key and what becomes of it: the one form of this fact, from the decision to the report.

    Attributes:
        key: the name as it was given.
        value: its value as a plain Python value (no constexpr, no NumPy scalar).
        where: where it stood.
        outcome: what becomes of it.
        why: the reason, in one sentence.
        arrives: name and value of the option as which it is delivered; None where it is not, or asks for
            nothing under its present name.
        quiet: its value asks for nothing (None, the option's off value, what a frontend passes with every
            compile), so that its being left out is no news.
        semantic: it is left out although it changes what a kernel computes or how it synchronises.
        unknown: it is nobody's option.
        option: the option's present name, by which it is warned of once.
    """

    key: str
    value: Any
    where: Where
    outcome: Outcome
    why: str
    arrives: tuple[str, Any] | None = None
    quiet: bool = False
    semantic: bool = False
    unknown: bool = False
    option: str = ""

    @property
    def loud(self) -> bool:
        """Whether it is left out, and that is news."""
        return self.outcome is Outcome.IGNORED and not self.quiet


class Plan(NamedTuple):
    """`kept`: what stays, in the order it came. `options`: what is delivered. `fates`: one for each key that
    does not stay, in the order they came."""

    kept: dict[Any, Any]
    options: dict[str, Any]
    fates: tuple[Fate, ...]


#: The places where options belong: one that is installed stays there, and is no news.
_OPTIONS_BELONG = (Where.LAUNCH, Where.OPTIONS)


def decide(asked: Mapping[Any, Any], parameters: Collection[str], where: Where, policy: Policy) -> Plan:
    """Split `asked` into what stays and what becomes of each key that does not belong there.

    Args:
        asked: keys and values as they were given: a kernel's constants, the keywords of a launch, options,
            the keywords of a Config that it does not take itself.
        parameters: the kernel's parameter names (`fn.arg_names`). They and keys that are no `str` stay.
        where: where `asked` stood.
        policy: the installed backend, what else is known, and what is switched on.
    """
    kept: dict[Any, Any] = {}
    options: dict[str, Any] = {}
    fates: list[Fate] = []
    belong = policy.belong_in_a_launch if where in _OPTIONS_BELONG else ()
    for key, value in asked.items():
        if not isinstance(key, str) or key in parameters or key in belong:
            kept[key] = value
            continue
        fate = judge(key, plain_value(value), where, policy, parameters)
        if fate.outcome is Outcome.UNTOUCHED or (belong and fate.arrives == (key, value)):
            kept[key] = value
            continue
        if fate.arrives is not None:
            fate = _settle(fate, fates, options, asked if belong else {})
        fates.append(fate)
    return Plan(kept, options, tuple(fates))


def _settle(fate: Fate, earlier: list[Fate], options: dict[str, Any], standing: Mapping[Any, Any]) -> Fate:
    """Add what arrives to `options`; refuse it where the same option has another value under another name."""
    assert fate.arrives is not None
    name, value = fate.arrives
    rival = name if name in standing and name != fate.key else ""
    if not rival and name in options:
        rival = next(other.key for other in earlier if other.arrives and other.arrives[0] == name)
    if not rival:
        options[name] = value
        return fate
    present = plain_value(standing[rival]) if rival in standing else options[name]
    if present == value:
        return fate
    why = (
        f"{fate.key}={fate.value!r} and {rival} are the same compile option under two names and differ "
        f"(here it is {name}: {value!r}, {present!r})"
    )
    return fate._replace(outcome=Outcome.REFUSED, arrives=None, why=why)


def judge(key: str, value: Any, where: Where, policy: Policy, parameters: Collection[str] = ()) -> Fate:
    """What becomes of one key that is none of the kernel's `parameters` and whose plain value is `value`.

    It depends on nothing else, so that an answer is kept; a tuner asks the same thousands of times."""
    asked = (where, key, type(value), value) if type(value) in _LOOKED_UP else None
    fate = policy.judged.get(asked) if asked else None
    if fate is None:
        fate = _judge(key, value, where, policy, parameters)
        if asked and not fate.unknown and len(policy.judged) < _MOST_KEPT:  # else parameters count
            policy.judged[asked] = fate
    return fate


#: Whose equal values print alike, which 0.0 and -0.0 do not.
_LOOKED_UP = frozenset({bool, int, str, type(None)})
_MOST_KEPT = 10_000


def _judge(key: str, value: Any, where: Where, policy: Policy, parameters: Collection[str]) -> Fate:
    about = policy.about(key)
    kind = about.kind
    spelled = policy.spell(key, value)
    if where is Where.CONSTANTS and policy.delivers_itself and kind is Kind.INSTALLED and spelled == value:
        return Fate(key, value, where, Outcome.UNTOUCHED, "this Triton delivers it itself", (key, value))
    off = policy.why_off(where)
    if off:
        own = kind in (Kind.INSTALLED, Kind.PASSED_ON) and where in _OPTIONS_BELONG
        why = "a compile option of the installed backend" if own else off
        return Fate(key, value, where, Outcome.UNTOUCHED, why, (key, value) if own else None)
    if where is Where.INTERPRETER and kind in (Kind.INSTALLED, Kind.PASSED_ON, Kind.RENAMED):
        why = f"{about.why}; the interpreter compiles nothing"
        return Fate(key, value, where, Outcome.IGNORED, why, None, True, option=about.option)
    quiet = policy.asks_for_nothing(key, value, about)
    if kind is Kind.PASSED_ON:
        return Fate(key, value, where, Outcome.DELIVERED, about.why, (key, value), quiet, option=key)
    if kind is Kind.INSTALLED:
        return _deliver(key, value, where, about, (key, spelled), quiet, policy)
    if kind is Kind.RENAMED:
        arrives = about.translate(value)
        if arrives is not None:
            return _deliver(key, value, where, about, arrives, quiet, policy)
        if quiet:
            why = f"{about.why}, where it asks for nothing"
            return Fate(key, value, where, Outcome.DELIVERED, why, None, True, option=about.option)
    if kind is Kind.UNKNOWN and not (quiet and where is Where.OPTIONS):
        return _unknown(key, value, where, policy, parameters)
    if kind is Kind.INTERNAL:
        return Fate(key, value, where, Outcome.REFUSED, f"{key!r} is not in list: {about.why}")
    return _leave_out(key, value, where, about, quiet, policy)


def _deliver(
    key: str,
    value: Any,
    where: Where,
    about: About,
    arrives: tuple[str, Any],
    quiet: bool,
    policy: Policy,
) -> Fate:
    """Deliver `key` as the option `arrives`, unless that option's type excludes the value."""
    name, arriving = arrives
    expected = policy.installed.types[name]
    # What belongs into a launch, or joins one from a Config, is Triton's own to check.
    checks = where is Where.CONSTANTS or about.kind is Kind.RENAMED
    if checks and not fits(arriving, expected):
        why = f"compile option {name!r} takes {expected}, not {arriving!r} ({type(arriving).__name__})"
        why = why if name == key else f"{key}: {why}"
        return Fate(key, value, where, Outcome.REFUSED, why, option=name)
    why = about.why
    if name == key and arriving != value:
        why += f", which spells this value {arriving!r}"
    return Fate(key, value, where, Outcome.DELIVERED, why, arrives, quiet, option=name)


def _leave_out(key: str, value: Any, where: Where, about: About, quiet: bool, policy: Policy) -> Fate:
    """Leave out an option that is none here; refuse it where that can make the kernel wrong, or in strict
    mode. (A Config refuses nothing: that would end a whole module, not one candidate.)"""
    refusal = ""
    if about.instead and not quiet:
        refusal = (
            f"compile option {key!r} is {about.why}, and without it the kernel can be wrong: {about.instead}"
        )
    elif policy.strict and not quiet:
        refusal = f"compile option {key!r} is {about.why} ({policy.release}); strict mode leaves nothing out"
    if refusal and where is Where.CONFIG:
        return Fate(key, value, where, Outcome.DELIVERED, f"{about.why}; the launch refuses it", (key, value))
    if refusal:
        return Fate(key, value, where, Outcome.REFUSED, refusal, option=about.option)
    why = about.why + (f"; it decides {about.meaning}" if about.meaning and not quiet else "")
    return Fate(
        key, value, where, Outcome.IGNORED, why, None, quiet, bool(about.meaning), option=about.option
    )


def _unknown(key: str, value: Any, where: Where, policy: Policy, parameters: Collection[str]) -> Fate:
    """A name that nobody knows: Triton's own error, where it has one, with the nearest names added."""
    if where is Where.OPTIONS or (where is Where.CONFIG and policy.config_drops_unknown):
        why = f"nobody knows it{policy.about(key).hint}"
        if where is Where.CONFIG:
            why += "; a kernel parameter belongs into the config's dict"
        outcome = Outcome.IGNORED
        if policy.strict:
            outcome, why = Outcome.REFUSED, f"compile option {key!r}: {why}; strict mode leaves nothing out"
        return Fate(key, value, where, outcome, why, unknown=True, option=key)
    why = _UNKNOWN[where].format(key=key) + policy.hint(key, parameters)
    return Fate(key, value, where, Outcome.REFUSED, why, unknown=True, option=key)


#: What Triton, or Python, says about an unknown name in each place; callers match on these words.
_UNKNOWN = {
    Where.CONSTANTS: "{key!r} is not in list: neither a kernel parameter nor a compile option of any known "
    "triton-ascend release",
    Where.LAUNCH: "Keyword argument {key} was specified but unrecognised",
    Where.CONFIG: "got an unexpected keyword argument {key!r}",
    Where.INTERPRETER: "got an unexpected keyword argument {key!r}",
}


def nearest_names(name: str, candidates: Iterable[str]) -> list[str]:
    """Up to three of `candidates` that `name` may be a misspelling of, nearest first."""
    import difflib  # only an error needs it

    return difflib.get_close_matches(name, sorted(candidates), n=3, cutoff=0.7)


_PLAIN = _LOOKED_UP | {float}


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
