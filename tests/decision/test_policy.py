"""A renamed option arrives by either name; options of other backends are known for what they are."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from triton_ascend_compat import generations, settings
from triton_ascend_compat.decision import catalogue, plan, policy
from triton_ascend_compat.decision.catalogue import ForeignOption, Rename
from triton_ascend_compat.decision.plan import Outcome, Where
from triton_ascend_compat.decision.policy import InstalledOptions, Policy

SAME = Rename("inter_cache_num", "buf_slot_num_of_crosscore")
MAPPED = (
    Rename("force_simt_only", "compile_mode", ((True, "simt_only"),), (False, "simd")),
    Rename("force_simt_template", "compile_mode", ((True, "unstructured_in_simt"),), (False, "simd")),
)
RENAMES = (SAME, *MAPPED)
NEW = InstalledOptions({"buf_slot_num_of_crosscore": "int", "compile_mode": "str"})
OLD = InstalledOptions({"inter_cache_num": "int", "force_simt_only": "bool", "force_simt_template": "bool"})
BOTH = InstalledOptions({**NEW.types, **OLD.types})
ITS_OWN = InstalledOptions(NEW.types, renamed=frozenset({"inter_cache_num", "force_simt_only"}))
FOREIGN = {
    "waves_per_eu": ForeignOption("Triton's HIP backend"),
    "num_consumer_groups": ForeignOption("warp specialisation", off=0),
}


def decide(constants, installed, parameters=("x_ptr",)):
    policy = Policy(installed, renames=RENAMES, foreign=FOREIGN)
    return plan.decide(constants, parameters, Where.CONSTANTS, policy)


@pytest.mark.parametrize(
    ("installed", "given", "delivered"),
    [
        (NEW, {"inter_cache_num": 3}, {"buf_slot_num_of_crosscore": 3}),
        (OLD, {"buf_slot_num_of_crosscore": 3}, {"inter_cache_num": 3}),
        (BOTH, {"inter_cache_num": 3}, {"inter_cache_num": 3}),
        (NEW, {"force_simt_only": True}, {"compile_mode": "simt_only"}),
        (NEW, {"force_simt_only": 1}, {"compile_mode": "simt_only"}),
        (NEW, {"force_simt_template": True}, {"compile_mode": "unstructured_in_simt"}),
        (NEW, {"force_simt_only": False}, {}),
        (NEW, {"force_simt_only": None}, {}),
        (OLD, {"compile_mode": "simt_only"}, {"force_simt_only": True}),
        (OLD, {"compile_mode": "unstructured_in_simt"}, {"force_simt_template": True}),
        (OLD, {"compile_mode": "simd"}, {}),
        (ITS_OWN, {"inter_cache_num": 3}, {"inter_cache_num": 3}),
        (NEW, {"inter_cache_num": 3, "buf_slot_num_of_crosscore": 3}, {"buf_slot_num_of_crosscore": 3}),
    ],
)
def test_an_option_arrives_by_the_installed_name(installed, given, delivered):
    decision = decide(given, installed)
    assert decision.options == delivered
    assert {fate.outcome for fate in decision.fates} == {Outcome.DELIVERED}


@pytest.mark.parametrize(
    ("installed", "given"),
    [
        (NEW, {"inter_cache_num": 3, "buf_slot_num_of_crosscore": 4}),
        (NEW, {"buf_slot_num_of_crosscore": 4, "inter_cache_num": 3}),
        (OLD, {"inter_cache_num": 3, "buf_slot_num_of_crosscore": 4}),
        (NEW, {"force_simt_only": True, "compile_mode": "simd"}),
        (NEW, {"force_simt_only": True, "force_simt_template": True}),
    ],
)
def test_both_given_and_different_names_both(installed, given):
    (refused,) = [fate for fate in decide(given, installed).fates if fate.outcome is Outcome.REFUSED]
    assert all(name in refused.why for name in given)


def test_a_value_without_a_counterpart_is_absent_not_guessed():
    (fate,) = decide({"compile_mode": "other"}, OLD).fates
    assert fate.outcome is not Outcome.DELIVERED


def test_a_value_of_the_wrong_type_is_refused_under_both_names():
    (fate,) = decide({"inter_cache_num": "three"}, NEW).fates
    assert fate.outcome is Outcome.REFUSED
    assert "inter_cache_num" in fate.why
    assert "buf_slot_num_of_crosscore" in fate.why


def test_where_neither_name_is_installed_it_is_left_out():
    (fate,) = decide({"inter_cache_num": 3}, InstalledOptions({"num_warps": "int"})).fates
    assert fate.outcome is Outcome.IGNORED
    assert "buf_slot_num_of_crosscore" in fate.why


class TestSpelling:
    """A value that the releases spell differently: the backend gets the spelling that it knows."""

    MODES = ("unstructured_in_simt", "simd_simt_template")

    @pytest.mark.parametrize(
        ("known", "respelled"),
        [(MODES, {}), (MODES[:1], {MODES[1]: MODES[0]}), (MODES[1:], {MODES[0]: MODES[1]}), ((), {})],
        ids=["both", "old", "new", "neither"],
    )
    @pytest.mark.parametrize("refuses", [True, False])
    def test_it_is_found_by_asking_the_backend(self, monkeypatch, known, respelled, refuses):
        def parse_plainly(backend_class, options):
            if refuses and options["compile_mode"] not in known:
                raise ValueError
            return SimpleNamespace(**options, templates=options["compile_mode"] in known)

        monkeypatch.setattr(generations, "parse_plainly", parse_plainly)
        found = policy._respelled(object, ["compile_mode"])
        assert found == {("compile_mode", given): taken for given, taken in respelled.items()}

    @pytest.mark.parametrize("where", [Where.CONSTANTS, Where.LAUNCH, Where.OPTIONS, Where.CONFIG])
    @pytest.mark.parametrize("delivers_itself", [True, False])
    def test_in_every_place(self, where, delivers_itself):
        installed = InstalledOptions(NEW.types, spelled={("compile_mode", self.MODES[1]): self.MODES[0]})
        here = Policy(installed, delivers_itself=delivers_itself)
        decided = plan.decide({"compile_mode": self.MODES[1]}, (), where, here)
        assert (decided.kept, decided.options) == ({}, {"compile_mode": self.MODES[0]})
        assert self.MODES[0] in decided.fates[0].why
        belongs = where in (Where.LAUNCH, Where.OPTIONS) or (delivers_itself and where is Where.CONSTANTS)
        asked = {"compile_mode": "simd"}
        assert plan.decide(asked, (), where, here).kept == (asked if belongs else {})

    def test_the_data_speak_of_values_that_the_option_has(self):
        for option, old, new in catalogue.spellings():
            assert catalogue.known_options()[option].default == repr(new)
            assert old != new


class TestForeign:
    def test_it_is_left_out_and_said_whose_it_is(self):
        (fate,) = decide({"waves_per_eu": 2}, NEW).fates
        assert (fate.outcome, "HIP" in fate.why) == (Outcome.IGNORED, True)

    @pytest.mark.parametrize(("value", "quiet"), [(0, True), (2, False), (None, True)])
    def test_one_that_asks_for_nothing_is_no_news(self, value, quiet):
        """Triton 3.2's own Config adds such to every launch."""
        (fate,) = decide({"num_consumer_groups": value}, NEW).fates
        assert (fate.outcome, fate.quiet) == (Outcome.IGNORED, quiet)

    def test_an_installed_option_is_not_foreign(self):
        installed = InstalledOptions({"waves_per_eu": "int"})
        assert decide({"waves_per_eu": 2}, installed).options == {"waves_per_eu": 2}

    def test_a_parameter_is_not_foreign(self):
        decision = decide({"waves_per_eu": 2}, NEW, parameters=("waves_per_eu",))
        assert (decision.kept, decision.fates) == ({"waves_per_eu": 2}, ())

    @pytest.mark.parametrize("key", ["XBLOCK_0", "num_warps_1"])
    def test_a_combo_kernels_parameter_is_no_misspelling(self, key):
        installed = InstalledOptions({"num_warps": "int"})
        (fate,) = decide({key: 64}, installed, parameters=("XBLOCK",)).fates
        assert "combo kernel" in fate.why
        assert decide({key: 64}, installed, parameters=(key,)).fates == ()


class TestData:
    def test_no_foreign_name_is_an_option_of_a_current_release(self):
        """What a triton-ascend release has is foreign only where Triton dropped it."""
        shared = catalogue.foreign_options().keys() & catalogue.known_options().keys()
        assert shared == {
            "num_buffers_warp_spec",
            "num_consumer_groups",
            "reg_dec_producer",
            "reg_inc_consumer",
        }

    def test_renames_lead_to_known_options(self):
        for rename in catalogue.renames():
            assert rename.new in catalogue.known_options(), rename
            assert rename.old != rename.new

    def test_a_users_file_extends_the_list(self, tmp_path, monkeypatch):
        file = tmp_path / "foreign.json"
        file.write_text(json.dumps({"my_option": "our fork", "kpack": "our fork"}))
        monkeypatch.setenv(settings.FOREIGN_VARIABLE, str(file))
        options = catalogue.foreign_options()
        assert (options["my_option"].owner, options["kpack"].owner) == ("our fork", "our fork")
        assert "waves_per_eu" in options

    @pytest.mark.parametrize(
        ("text", "told"),
        [(None, "No such file"), ("[1]", "list"), ('{"x": 1}', "'x'"), ("{", "Expecting")],
        ids=["absent", "list", "owner", "syntax"],
    )
    def test_a_wrong_users_file_is_one_line_of_log(self, tmp_path, monkeypatch, caplog, text, told):
        file = tmp_path / "foreign.json"
        if text is not None:
            file.write_text(text)
        monkeypatch.setenv(settings.FOREIGN_VARIABLE, str(file))
        for _ in range(2):
            assert "waves_per_eu" in catalogue.foreign_options()
        (line,) = [record.getMessage() for record in caplog.records]
        assert "\n" not in line
        assert told in line
        assert str(file) in line
        assert "expected a JSON object" in line
