"""The catalogue is what its program read: nothing is missing, misspelt, or put there by hand."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from triton_ascend_compat import settings
from triton_ascend_compat.decision import catalogue

PROGRAM = Path(__file__).parents[2] / "docs" / "catalogue" / "refresh.py"
spec = importlib.util.spec_from_file_location("refresh", PROGRAM)
refresh = sys.modules["refresh"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(refresh)

DATA = json.loads(refresh.CATALOGUE.read_text(encoding="utf-8"))
BY_HAND = {"kind", "meaning", "instead", "ground", "off", "note"}
STATES = {"option", "ignored", "initvar", "derived"}
TYPES = {"bool", "int", "str", "dict", "tuple", "Tuple", "Optional"}


def faults(data):
    """What is wrong with the data, one line each."""
    sources = {source["release"]: source for source in data["sources"]}
    for release, source in sources.items():
        if not re.fullmatch("[0-9a-f]{64}", source.get("sha256", {}).get("compiler.py", "")):
            yield f"the program was not run on {release}"
        if source.get("names") != len(refresh.facts_in(data, release)):
            yield f"the program found {source.get('names')} names in {release}, the data have others"
    for name, facts in data["options"].items():
        for release in {each for releases in facts["states"].values() for each in releases} - sources.keys():
            yield f"{name}: {release} is no source"
        for key in facts.keys() - BY_HAND - set(refresh.WRITTEN):
            yield f"{name}: there is no key {key}"
        for state in facts["states"].keys() - STATES:
            yield f"{name}: there is no state {state}"
        for word in set(re.findall(r"\w+", facts.get("type") or "none")) - TYPES:
            yield f"{name}: there is no type {word}"
        if facts.get("kind") not in ("tuning", "semantic", "debug", "target"):
            yield f"{name}: nobody has judged its kind"
        if not isinstance(facts.get("off", []), list):
            yield f"{name}: off is no list"
        for key in ("meaning", "ground") if facts.get("kind") == "semantic" else ():
            if not facts.get(key):
                yield f"{name}: changes what a kernel means, and the data do not say its {key}"
        if "instead" in facts and facts.get("kind") != "semantic":
            yield f"{name}: is needed, and changes nothing"


def test_the_data_are_right():
    assert list(faults(DATA)) == []
    assert refresh.written(DATA) == refresh.CATALOGUE.read_text(encoding="utf-8")


def _source(data):
    return data["sources"][3]


def _option(data):
    return data["options"]["enable_sync_block_lock"]


MISTAKES = {
    "a release without the program's mark": (lambda data: _source(data).pop("sha256"), "was not run on"),
    "a name that was added by hand": (
        lambda data: data["options"]["rule_mask"]["states"].update(option=["3.2.2"]),
        "names in 3.2.2",
    ),
    "a release that is no source": (lambda data: data["sources"].pop(3), "3.2.2 is no source"),
    "a misspelt type": (lambda data: _option(data).update(type="bol"), "no type bol"),
    "no type": (lambda data: _option(data).pop("type"), "no type none"),
    "a misspelt key": (lambda data: _option(data).update(of=[0]), "no key of"),
    "a misspelt state": (lambda data: _option(data)["states"].update(optoin=["3.2.2"]), "no state optoin"),
    "no kind": (lambda data: _option(data).pop("kind"), "judged its kind"),
    "a misspelt kind": (lambda data: _option(data).update(kind="semantics"), "judged its kind"),
    "no meaning": (lambda data: _option(data).pop("meaning"), "its meaning"),
    "no ground": (lambda data: _option(data).pop("ground"), "its ground"),
    "needed without a meaning": (lambda data: _option(data).update(kind="tuning"), "changes nothing"),
    "a value that is no list": (lambda data: _option(data).update(off=False), "off is no list"),
}


@pytest.mark.parametrize(("mistake", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_the_data_is_found(mistake, told):
    data = copy.deepcopy(DATA)
    mistake(data)
    if "type" not in _option(data):
        _option(data)["type"] = None
    assert told in "\n".join(faults(data))


class TestKnownOptions:
    def test_a_release_is_in_the_state_that_the_data_say(self):
        known = catalogue.known_options()
        assert known.keys() == DATA["options"].keys()
        for option in known.values():
            places = [*option.releases, *option.ignored, *option.internal]
            assert sorted(places) == sorted(
                r for rs in DATA["options"][option.name]["states"].values() for r in rs
            )
            assert set(places) <= set(catalogue.releases())

    def test_what_asks_for_nothing(self):
        known = catalogue.known_options()
        assert all(None in option.off for option in known.values())
        assert known["enable_sync_block_lock"].off == (
            None,
            False,
        )  # the one default
        assert known["enable_vf_fusion"].off == (None,)  # releases differ
        assert known["superblock_factor"].off == (None, 0, 1)  # the data say so
        assert known["bisheng_options"].off == (None,)  # an expression

    def test_one_that_a_kernel_needs_says_what_to_do(self):
        needed = {option.name for option in catalogue.known_options().values() if option.needed}
        assert needed == {"enable_sync_block_lock", "disable_tightly_coupled_buffer_reuse"}

    def test_a_message_names_the_newest_state_of_main_only(self):
        option = catalogue.known_options()["auto_blockify_size"]
        assert option.seen_in == "3.2.1, 3.2.2, main (2026-08)"


SOURCE = '''
from dataclasses import InitVar, dataclass, field

@dataclass(frozen=True)
class NPUOptions:
    kept: int = 1
    """a field"""
    moved: "bool" = None
    limits: Optional[Tuple[int]] = (1, 2)
    where: InitVar[str] = ""
    plain = 3
    _private: int = 0
    shared: ClassVar[int] = 0
    made: dict = field(default_factory=dict)
    derived: bool = field(default=False, init=False)
    looked_up: int = field(default=7, init=False)
    measured: int = cores() - 1
    gone: str = None

    def __post_init__(self, where):
        object.__setattr__(self, "derived", True)
        _warn_deprecated_npu_option("gone")
'''
TABLES = """
_DEPRECATED_NPU_OPTIONS = frozenset({"dropped", "old_name"})
_DEPRECATED_NPU_OPTION_ALIASES = {"old_name": "kept"}
_DEPRECATED_NPU_OPTION_ROUTES = {"force": ("mode", "fast")}
"""


def _folder(tmp_path, home="third_party/ascend/backend"):
    backend = tmp_path / "tree" / home
    backend.mkdir(parents=True)
    (backend / "compiler.py").write_text(SOURCE)
    (backend / "utils.py").write_text(TABLES)
    return tmp_path / "tree"


class TestRefresh:
    def test_every_kind_of_field_is_told(self, tmp_path):
        facts = refresh.read_release(refresh.files_of(_folder(tmp_path), None)).facts
        assert {name: fact.state for name, fact in facts.items()} == {
            **dict.fromkeys(("kept", "moved", "limits", "made", "measured"), "option"),
            **dict.fromkeys(("gone", "dropped", "old_name", "force", "looked_up"), "ignored"),
            "where": "initvar",
            "derived": "derived",
        }
        assert (facts["limits"].type, facts["limits"].default) == ("Optional[Tuple[int]]", [1, 2])
        assert facts["where"].type == "str"
        assert facts["measured"].default == {"expression": "cores() - 1"}
        assert SOURCE.splitlines()[facts["kept"].line - 1].strip() == "kept: int = 1"

    @pytest.mark.parametrize("home", [home.rstrip("/") for home in refresh.HOMES])
    def test_a_wheel_reads_like_a_folder(self, tmp_path, home):
        folder = _folder(tmp_path, home)
        with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
            for path in folder.rglob("*.py"):
                wheel.write(path, path.relative_to(folder))
        there, here = (refresh.files_of(tree, None) for tree in (tmp_path / "a.whl", folder))
        assert refresh.read_release(there) == refresh.read_release(here)

    @pytest.mark.parametrize("text", [None, "class Other: ..."])
    def test_a_tree_without_the_class_is_told_of(self, tmp_path, text):
        if text is not None:
            (_folder(tmp_path) / "third_party/ascend/backend/compiler.py").write_text(text)
        with pytest.raises(SystemExit, match=r"no compiler\.py|no class NPUOptions"):
            refresh.read_release(refresh.files_of(tmp_path / "tree", None))

    @pytest.fixture
    def data(self, tmp_path, monkeypatch):
        file = tmp_path / "catalogue.json"
        file.write_text(refresh.written(DATA))
        monkeypatch.setattr(refresh, "CATALOGUE", file)
        return lambda: json.loads(file.read_text())

    def test_a_new_release_is_told_of_and_leaves_judgements_alone(self, tmp_path, capsys, data):
        arguments = [str(_folder(tmp_path)), "--release", "3.3.0", "--date", "2027-01-01"]
        refresh.main(arguments)
        told = capsys.readouterr().out
        for line in ("renamed: old_name -> kept", "gone: multibuffer", "new: kept: int = 1 (option)"):
            assert line in told
        assert "to judge: kept" in told
        assert [f for f in faults(data()) if "judged" not in f and "type" not in f] == []
        assert any("kept: nobody has judged" in fault for fault in faults(data()))
        for name, facts in DATA["options"].items():
            after = data()["options"][name]
            assert {key: after[key] for key in BY_HAND & after.keys()} == {
                key: facts[key] for key in BY_HAND & facts.keys()
            }
            assert after["states"] == facts["states"]
        before = data()
        refresh.main(arguments)
        assert data() == before

    def test_it_needs_a_date(self, tmp_path, data):
        with pytest.raises(SystemExit, match="--date"):
            refresh.main([str(_folder(tmp_path)), "--release", "3.3.0"])
        with pytest.raises(SystemExit, match="no git repository that has abc"):
            refresh.main([str(tmp_path), "--release", "3.3.0", "--at", "abc"])

    def test_the_installed_backend_has_nothing_that_the_data_lack(self):
        """A release that is in the data is there as it is; any other has no name that they do not know."""
        triton = importlib.util.find_spec("triton")
        files = refresh.files_of(Path(triton.origin).parents[1], None)
        if files(refresh.HOMES[2] + "compiler.py") is None:
            pytest.skip("the triton that is installed here has no ascend backend of its own")
        installed = refresh.read_release(files)
        assert installed.facts.keys() <= DATA["options"].keys()
        marks = {source["sha256"]["compiler.py"]: source["release"] for source in DATA["sources"]}
        release = marks.get(installed.sha256["compiler.py"])
        if release is not None:
            facts = {name: fact._replace(line=0) for name, fact in installed.facts.items()}
            assert facts == refresh.facts_in(DATA, release)


class TestUsersFile:
    def _make(self, path, kind):
        if kind == "a folder":
            path.mkdir()
        elif kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a device":
            path.symlink_to("/dev/zero")
        elif kind == "too large":
            path.write_bytes(b" " * ((1 << 20) + 1))
        elif kind == "too deep":
            path.write_text("[" * 5000 + "]" * 5000)
        elif kind == "no text":
            path.write_bytes(b"\xff\xfe\0")

    @pytest.mark.parametrize(
        "kind", ["nothing", "a folder", "a pipe", "a device", "too large", "too deep", "no text"]
    )
    def test_what_is_no_usable_file_is_one_warning(self, kind, tmp_path, monkeypatch, caplog):
        file = tmp_path / "foreign.json"
        self._make(file, kind)
        monkeypatch.setenv(settings.FOREIGN_VARIABLE, str(file))
        usual = catalogue.foreign_options().keys()
        (line,) = [record.getMessage() for record in caplog.records]
        assert str(file) in line
        assert "expected a JSON object" in line
        monkeypatch.delenv(settings.FOREIGN_VARIABLE)
        assert usual == catalogue.foreign_options().keys()
