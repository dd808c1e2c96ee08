"""The decision: tables first, then properties. Nothing here needs Triton."""

from __future__ import annotations

import subprocess
import sys
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ascend_compat.decision import plan
from triton_ascend_compat.decision.catalogue import KnownOption, known_options
from triton_ascend_compat.decision.plan import Outcome, Where
from triton_ascend_compat.decision.policy import InstalledOptions, Policy

INSTALLED = InstalledOptions(
    {"multibuffer": "bool", "num_warps": "int", "mode": "str"}, retired=frozenset({"llvm_version"})
)
KNOWN = {
    "auto_blockify_size": KnownOption("auto_blockify_size", "int", ("3.2.1",), ("autumn",)),
    "multibuffer": KnownOption("multibuffer", "bool", ("3.2.0",), ()),
}
PARAMETERS = ("x_ptr", "n", "XBLOCK")


def decide(asked, parameters=PARAMETERS, where=Where.CONSTANTS, **facts):
    return plan.decide(asked, parameters, where, Policy(INSTALLED, KNOWN, **facts))


class constexpr:
    """Stand-in for tl.constexpr, which the decision knows by its name so as not to import it."""

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("key", "value", "outcome"),
    [
        ("multibuffer", False, Outcome.DELIVERED),
        ("multibuffer", None, Outcome.DELIVERED),
        ("multibuffer", 0, Outcome.DELIVERED),
        ("multibuffer", 2, Outcome.REFUSED),
        ("multibuffer", "no", Outcome.REFUSED),
        ("multibuffer", 1.0, Outcome.REFUSED),
        ("num_warps", 8, Outcome.DELIVERED),
        ("num_warps", 8.0, Outcome.REFUSED),
        ("num_warps", "8", Outcome.REFUSED),
        ("mode", "simd", Outcome.DELIVERED),
        ("mode", 3, Outcome.REFUSED),
        ("llvm_version", object, Outcome.DELIVERED),
        ("auto_blockify_size", 2, Outcome.IGNORED),
        ("auto_blockfy_size", 2, Outcome.REFUSED),
        ("XBLOK", 2, Outcome.REFUSED),
    ],
)
def test_one_key(key, value, outcome):
    decision = decide({"XBLOCK": 1024, key: value})
    assert [(fate.key, fate.outcome) for fate in decision.fates] == [(key, outcome)]
    assert decision.kept == {"XBLOCK": 1024}
    assert decision.options == ({key: value} if outcome is Outcome.DELIVERED else {})


@pytest.mark.parametrize("key", ["XBLOCK", 0, (1,), (1, 2), "n"])
def test_parameters_and_indices_stay(key):
    decision = decide({key: 7})
    assert decision.kept == {key: 7}
    assert decision.fates == ()


def test_a_parameter_wins_over_an_option_of_its_name():
    decision = decide({"multibuffer": True, "num_warps": 4}, parameters=("multibuffer",))
    assert decision.kept == {"multibuffer": True}
    assert decision.options == {"num_warps": 4}


def test_reasons_name_what_was_wrong_and_what_would_be_right():
    asked = {"auto_blockfy_size": 2, "multibuffer": "no", "XBLOK": 1}
    reasons = {fate.key: fate.why for fate in decide(asked).fates}
    assert "'auto_blockfy_size' is not in list" in reasons["auto_blockfy_size"]
    assert "auto_blockify_size" in reasons["auto_blockfy_size"].partition("nearest")[2]
    assert "XBLOCK" in reasons["XBLOK"].partition("nearest")[2]
    assert all(word in reasons["multibuffer"] for word in ("'multibuffer'", "bool", "'no'", "str"))


def test_an_absent_option_names_the_releases_that_have_it():
    (fate,) = decide({"auto_blockify_size": 2}).fates
    assert "3.2.1" in fate.why


@pytest.mark.parametrize(
    ("value", "plain"),
    [(constexpr(4), 4), (constexpr(constexpr("a")), "a"), (None, None), ([1], [1]), ("x", "x")],
)
def test_plain_value(value, plain):
    assert plan.plain_value(value) == plain


def test_numpy_scalars_become_plain():
    numpy = pytest.importorskip("numpy")
    for value in (
        numpy.int64(3),
        numpy.float32(0.5),
        numpy.bool_(True),
        numpy.array(3),
        constexpr(numpy.int8(3)),
    ):
        assert type(plan.plain_value(value)) in (int, float, bool)
    array = numpy.zeros(2)
    assert plan.plain_value(array) is array


@pytest.mark.parametrize(
    ("annotation", "fitting", "excluded"),
    [
        ("bool", True, "True"),
        ("Optional[bool]", None, "x"),
        ("bool | None", 1, 2),
        ("int", 3, "3"),
        ("float", 1, "1"),
        ("str", "a", 1),
        ("tuple", (1,), 1),
        (str(typing.Tuple[str]), ("ieee",), "ieee"),  # noqa: UP006 - what triton-ascend 3.2.0 annotates
        ("Tuple[str]", ["ieee"], 1),
        ("dict", {}, "x"),
    ],
)
def test_fits(annotation, fitting, excluded):
    assert plan.fits(fitting, annotation)
    assert not plan.fits(excluded, annotation)


@pytest.mark.parametrize("annotation", ["Any", "int | str", "SomeClass", ""])
def test_a_type_that_excludes_nothing_plainly_admits_all(annotation):
    assert plan.fits(object(), annotation)


names = st.sampled_from(
    [*PARAMETERS, *INSTALLED.types, *INSTALLED.retired, *KNOWN, "nobody_knows", "XBLOCK_0", "y"]
)
keys = st.one_of(names, st.integers(0, 5), st.tuples(st.integers(0, 5)), st.text(max_size=8))
values = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.floats(allow_nan=False))


@given(st.dictionaries(keys, values), st.lists(names, unique=True))
def test_every_key_has_exactly_one_place(constants, parameters):
    before = dict(constants)
    decision = decide(constants, parameters)
    assert constants == before
    judged = [fate.key for fate in decision.fates]
    assert judged == [key for key in constants if isinstance(key, str) and key not in parameters]
    assert list(decision.kept.items()) == [(k, v) for k, v in constants.items() if k not in judged]
    assert set(decision.options) == {fate.key for fate in decision.fates if fate.outcome is Outcome.DELIVERED}
    assert set(decision.options) <= set(INSTALLED.types) | INSTALLED.retired
    assert not set(decision.options) & set(parameters)


@given(st.dictionaries(keys, values), st.lists(names, unique=True))
def test_deciding_again_on_what_was_kept_changes_nothing(constants, parameters):
    kept = decide(constants, parameters).kept
    again = decide(kept, parameters)
    assert again.fates == ()
    assert again.kept == kept


def test_the_catalogue_states_where_each_option_comes_from():
    options = known_options()
    assert options["auto_blockify_size"].releases
    assert "3.2.0" not in options["auto_blockify_size"].releases
    assert all(option.releases or option.ignored or option.internal for option in options.values())
    assert not any(name.startswith("_") for name in options)


def test_the_decision_needs_no_triton():
    program = (
        "import sys; sys.modules['triton'] = None; sys.modules['torch'] = None\n"
        "from triton_ascend_compat.decision import plan\n"
        "from triton_ascend_compat.decision.catalogue import known_options\n"
        "from triton_ascend_compat.decision.policy import InstalledOptions, Policy\n"
        "policy = Policy(InstalledOptions({'multibuffer': 'bool'}), known_options())\n"
        "d = plan.decide({'multibuffer': True}, (), plan.Where.CONSTANTS, policy)\n"
        "assert d.options == {'multibuffer': True}, d\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
