"""What a decision is made by: the options of the installed backend, what else is known of options, and what
is switched on. One frozen `Policy`, built once per backend class and switch; `plan` reads it.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton_ascend_compat.decision import catalogue
from triton_ascend_compat.decision.catalogue import KnownOption, Rename
from triton_ascend_compat.decision.foreign import ForeignOption, foreign_options
from triton_ascend_compat.decision.plan import Fate, Kind, Where, nearest_names

#: The fix that serves each place where a key may stand.
_FIX_OF = {
    Where.CONSTANTS: "constants",
    Where.LAUNCH: "launch",
    Where.OPTIONS: "launch",
    Where.CONFIG: "config",
    Where.INTERPRETER: "interpreter",
}

#: What Triton does with a key that does not belong, where nothing of ours stands in between.
_WITHOUT_US = {
    Where.CONSTANTS: "Triton refuses it: it is no kernel parameter",
    Where.LAUNCH: "Triton refuses it: Keyword argument unrecognised",
    Where.OPTIONS: "the backend drops it without a word",
    Where.CONFIG: "Config drops it or refuses it",
    Where.INTERPRETER: "the interpreter refuses it",
}


@dataclass(frozen=True)
class InstalledOptions:
    """The options that the installed Ascend backend accepts.

    `types` maps the name of each public, settable field of its options dataclass to the type as
    annotated, `defaults` to its value where nothing is asked for. `retired` are the names that it accepts,
    warns about and drops, `renamed` those that it turns into others itself. `internal` are the names that it
    sets itself: no caller's, but its own parsed options hold them when they are parsed again. `spelled` leads
    from option and value to that value as the backend spells it, where it takes no other spelling.
    """

    types: Mapping[str, str]
    retired: frozenset[str] = frozenset()
    renamed: frozenset[str] = frozenset()
    internal: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    spelled: Mapping[tuple[str, Any], str] = field(default_factory=dict)


@dataclass(frozen=True)
class About:
    """What is known of one name; made once per policy and name.

    Attributes:
        kind: what it is, to the installed backend.
        why: that in one sentence.
        option: the option's name: in the installed backend, or else its newest.
        values: where the values differ with the name: a value here, the option's name and its value there.
        off: values that ask for nothing.
        meaning: what it decides of what a kernel computes; empty for a tuning hint.
        instead: what to do where a kernel can be wrong without it.
        hint: the nearest names that somebody knows.
    """

    kind: Kind
    why: str
    option: str
    values: tuple[tuple[Any, str, Any], ...] = ()
    off: tuple[Any, ...] = ()
    meaning: str = ""
    instead: str = ""
    hint: str = ""

    def translate(self, value: Any) -> tuple[str, Any] | None:
        """The present name and the value under it; None where there is none."""
        if not self.values:
            return self.option, value
        return next(((name, there) for here, name, there in self.values if here == value), None)


@dataclass(frozen=True, eq=False)
class Policy:
    """What a decision is made by.

    Attributes:
        installed: the options of the backend that will compile.
        known: the options that any public release has had, by name.
        renames: the options that have had two names.
        foreign: the options of other Triton backends, by name.
        always_passed: what frontends pass with every compile: name -> values.
        fixes: the names of the fixes that are on.
        strict: whether an option that is absent here is an error rather than a warning.
        off: why a fix is off, by its name, for messages.
        delivers_itself: whether this Triton takes installed options out of the constants by itself.
        config_drops_unknown: whether `triton.Config` takes any keyword and drops what it does not know.
        release: the installed triton-ascend, for messages.
        judged: the fates of what was asked before, kept by `plan.judge`.
    """

    installed: InstalledOptions
    known: Mapping[str, KnownOption] = field(default_factory=dict)
    renames: tuple[Rename, ...] = ()
    foreign: Mapping[str, ForeignOption] = field(default_factory=dict)
    always_passed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    fixes: Collection[str] = frozenset(_FIX_OF.values())
    strict: bool = False
    off: Mapping[str, str] = field(default_factory=dict)
    delivers_itself: bool = False
    config_drops_unknown: bool = False
    release: str = "this triton-ascend"
    judged: dict[Any, Fate] = field(default_factory=dict, repr=False)
    _about: dict[str, About] = field(default_factory=dict, repr=False)

    @functools.cached_property
    def belong_in_a_launch(self) -> frozenset[str]:
        """The names that a launch and `options=` hand to the backend as they are."""
        return self.fields | self.taken

    @functools.cached_property
    def fields(self) -> frozenset[str]:
        """The names of the fields of the backend's options, but for those with a value to be respelled."""
        respelled = {option for option, _ in self.installed.spelled}
        return frozenset(self.installed.types) - respelled | self.installed.internal

    @functools.cached_property
    def taken(self) -> frozenset[str]:
        """The names that the backend takes itself, to rename or to retire them."""
        return self.installed.retired | self.installed.renamed

    def why_off(self, where: Where) -> str:
        """Why a key that stands there is not this layer's business, and what then becomes of it; empty where
        it is."""
        fix = _FIX_OF[where]
        if fix in self.fixes:
            return ""
        return f"{fix}: {self.off.get(fix) or 'the fix is off'}; {_WITHOUT_US[where]}"

    def asks_for_nothing(self, key: str, value: Any, about: About) -> bool:
        """Whether the value asks for nothing, so that its being left out is no news."""
        return value is None or value in about.off or value in self.always_passed.get(key, ())

    def spell(self, key: str, value: Any) -> Any:
        """The value of an installed option as the backend spells it."""
        return self.installed.spelled.get((key, value), value) if isinstance(value, str) else value

    def about(self, key: str) -> About:
        """What is known of the name `key`."""
        found = self._about.get(key)
        if found is None:
            found = self._about[key] = self._look_up(key)
        return found

    def _look_up(self, key: str) -> About:
        installed = self.installed
        if key in installed.types:
            return About(Kind.INSTALLED, "a compile option of the installed backend", key)
        for names, does in ((installed.renamed, "renames"), (installed.retired, "retires")):
            if key in names:
                return About(Kind.PASSED_ON, f"the installed backend accepts this name and {does} it", key)
        if key in installed.internal:
            return About(Kind.INTERNAL, "the installed backend sets it itself, it is no caller's option", key)
        present: list[str] = []  # more than one where values of the option have become options of their own
        values: tuple[tuple[Any, str, Any], ...] = ()
        off: tuple[Any, ...] = ()
        for rename in self.renames:
            if key == rename.old and rename.new in installed.types:
                present.append(rename.new)
                values += tuple((old, rename.new, new) for old, new in rename.values)
            elif key == rename.new and rename.old in installed.types:
                present.append(rename.old)
                values += tuple((new, rename.old, old) for old, new in rename.values)
            else:
                continue
            off += rename.off if rename.values else ()
        if present:
            why = f"called {' or '.join(present)} in the installed backend"
            return About(Kind.RENAMED, why, present[0], values, off)
        return self._not_here(key)

    def _not_here(self, key: str) -> About:
        option = next((rename.new for rename in self.renames if rename.old == key and not rename.values), key)
        if key in self.foreign:
            foreign = self.foreign[key]
            off = (foreign.off,) if foreign.off is not None else ()
            return About(Kind.FOREIGN, f"a compile option of {foreign.owner}", key, off=off)
        if key in self.known:
            known = self.known[key]
            semantic = known.kind == "semantic"
            why = f"known from {known.seen_in}, not installed here"
            meaning = (known.meaning or "what the kernel means") if semantic else ""
            return About(Kind.ABSENT, why, option, (), known.off, meaning, known.instead)
        newer = sorted({rename.new for rename in self.renames if rename.old == key})
        if newer:
            why = f"an older name of {', '.join(newer)}, which is not installed here either"
            return About(Kind.ABSENT, why, option)
        return About(Kind.UNKNOWN, "nobody knows it", key, hint=self.hint(key))

    def hint(self, key: str, parameters: Collection[str] = ()) -> str:
        """What to add to an error about `key`: the nearest names, the kernel's `parameters` among them."""
        installed = self.installed
        candidates = {*installed.types, *installed.retired, *self.known, *self.foreign, *parameters}
        base, _, number = key.rpartition("_")
        if number.isdigit() and (base in candidates or base.isupper()):
            return f"; it has the form of a combo kernel's parameter ({base} of sub-kernel {number})"
        nearest = nearest_names(key, candidates)
        return f"; nearest known names: {', '.join(nearest)}" if nearest else ""


@functools.cache
def read_installed(backend_class: type) -> InstalledOptions | None:
    """The options that `backend_class` (a Triton backend for target npu) builds; None where it tells none.

    A public `init` field of the options dataclass is an option. A derived field (`init=False`) is never a
    caller's, and an `InitVar` is no field of the dataclass.
    """
    from triton_ascend_compat import generations

    options_class, built = generations.options_class(backend_class)
    if options_class is None:
        return None
    types = {
        each.name: each.type.__name__ if isinstance(each.type, type) else str(each.type)
        for each in dataclasses.fields(options_class)
        if each.init and not each.name.startswith("_")
    }
    retired = generations.retired_names(backend_class) - types.keys()
    return InstalledOptions(
        types,
        retired,
        frozenset(
            rename.old
            for rename in catalogue.renames()
            if rename.old not in types
            and rename.new in types
            and _renames_itself(backend_class, rename, built)
        ),
        frozenset([*options_class.__dataclass_fields__, *vars(built or object)]) - types.keys() - retired,
        {name: getattr(built, name) for name in types if hasattr(built, name)},
        _respelled(backend_class, types),
    )


def _renames_itself(backend_class: type, rename: Rename, built: Any) -> bool:
    """Whether the backend turns the old name into the new one itself, found by asking it to: what it builds
    with the old name given differs from what it builds with nothing given."""
    if built is None:
        return False
    for sample in [old for old, _ in rename.values[:1]] or [2, 3]:  # two samples: one may be the default
        asked = _ask(backend_class, rename.old, sample)
        # Where it refuses, it knows the name.
        if asked is None or getattr(asked, rename.new) != getattr(built, rename.new):
            return True
    return False


def _respelled(backend_class: type, types: Collection[str]) -> dict[tuple[str, Any], str]:
    """`InstalledOptions.spelled`, found by asking: what the backend does not know it refuses, or takes
    as it takes any nonsense."""
    found = {}
    for option, old, new in catalogue.spellings():
        if option in types:
            asked = (_ask(backend_class, option, value) for value in ("no such value", old, new))
            nonsense, *built = ({**vars(each), option: None} if each else None for each in asked)
            known = [each for each in built if each != nonsense]
            if len(known) == 1:
                given, taken = (new, old) if known[0] is built[0] else (old, new)
                found[option, given] = taken
    return found


def _ask(backend_class: type, name: str, value: Any) -> Any:
    """What the backend builds when asked for one option; None where it refuses."""
    from triton_ascend_compat import generations

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return generations.parse_plainly(backend_class, {name: value})
        except Exception:
            return None


def make(backend_class: type, switches: Collection[str], **facts: Any) -> Policy | None:
    """The policy for a backend; None where it tells no options.

    Args:
        backend_class: the npu backend's class.
        switches: the names of the fixes and of the data (`renames`, `foreign`) that are on.
        facts: the other fields of `Policy`.
    """
    installed = read_installed(backend_class)
    if installed is None:
        return None
    if "renames" not in switches:
        installed = dataclasses.replace(installed, spelled={})
    return Policy(
        installed,
        catalogue.known_options(),
        catalogue.renames() if "renames" in switches else (),
        foreign_options() if "foreign" in switches else {},
        catalogue.frontend_values(),
        fixes=frozenset(switches),
        **facts,
    )
