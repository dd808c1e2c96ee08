"""What stands in `.triton-ascend-compat` may be anybody's: nothing but the patched files is changed."""

from __future__ import annotations

import copy
import json
import os
import shutil
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.patching.sites import COMPILER, assert_refused, contents, patch, small_site, snapshot
from triton_ascend_compat.patching.store import sha256
from triton_ascend_compat.patching.transaction import PatchFolder


@pytest.fixture
def site(tmp_path):
    site = small_site(tmp_path)
    patch("apply", site=site)
    return site


def rewrite(site, change):
    folder = PatchFolder(site)
    raw = json.loads(folder.applied.read_text())
    change(raw)
    folder.applied.write_text(json.dumps(raw))


def point_at(path, content=b"mine\n"):
    """A record that would put an original of our choice in the place of `path`."""

    def change(site):
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)
        original = PatchFolder(site).originals / "0"
        original.write_bytes(b"evil\n")
        entry = {"path": path, "before": sha256(b"evil\n"), "after": sha256(content)}
        rewrite(site, lambda raw: raw["files"].__setitem__(0, entry))

    return change


def evil_original(site):
    """The right file, but an original that was never released."""
    number = [file.path for file in PatchFolder(site).record().files].index(COMPILER)
    (PatchFolder(site).originals / str(number)).write_bytes(b"evil\n")
    rewrite(site, lambda raw: raw["files"][number].update(before=sha256(b"evil\n")))


CRAFTED = {
    "another file of Triton": point_at("triton/runtime/jit.py"),
    "a file of another package": point_at("numpy/__init__.py"),
    "a file outside": point_at("../outside.py"),
    "a file outside, from Triton": point_at("triton/../../outside.py"),
    "an original that was never released": evil_original,
    "no files": lambda s: rewrite(s, lambda raw: raw.update(files=[])),
    "a file twice": lambda s: rewrite(s, lambda raw: raw["files"].append(raw["files"][0])),
    "a key too many": lambda s: rewrite(s, lambda raw: raw.update(more=1)),
    "no key": lambda s: rewrite(s, lambda raw: raw.pop("line")),
    "several lines in a name": lambda s: rewrite(s, lambda raw: raw.update(line="x\nError: y")),
    "a number for a hash": lambda s: rewrite(s, lambda raw: raw["files"][0].update(after=5)),
    "a list": lambda s: PatchFolder(s).applied.write_text("[]"),
    "deeply nested": lambda s: PatchFolder(s).applied.write_text("[" * 100_000),
    "not text": lambda s: PatchFolder(s).applied.write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("name", ["applied.json", "journal.json"])
@pytest.mark.parametrize("craft", CRAFTED)
def test_a_crafted_record_is_refused(site, craft, name):
    CRAFTED[craft](site)
    if name == "journal.json":
        PatchFolder(site).applied.rename(PatchFolder(site).journal)
    before = snapshot(site.parent)
    for operation in ("check", "apply", "revert"):
        assert_refused(patch(operation, site=site), name, "not as this tool writes it", "nothing was changed")
        assert snapshot(site.parent) == before


def replaced_by_link(site, name):
    place, outside = site / name, site.parent / "outside"
    shutil.move(place, outside)
    place.symlink_to(outside)


@pytest.mark.parametrize(
    "name",
    ["", "/applied.json", "/originals", "/originals/0"],
    ids=["the folder", "the record", "the originals", "one original"],
)
def test_a_symlink_is_not_followed(site, name):
    replaced_by_link(site, f".triton-ascend-compat{name}")
    before = snapshot(site.parent)
    assert_refused(patch("revert", site=site), "symlink")
    assert snapshot(site.parent) == before


def test_a_lock_that_leads_out_creates_nothing(site):
    folder = PatchFolder(site)
    folder.lock.unlink(missing_ok=True)
    folder.lock.symlink_to(site.parent / "created")
    assert_refused(patch("revert", site=site), "lock")
    assert not (site.parent / "created").exists()


@pytest.mark.parametrize("operation", ["apply", "revert"])
def test_bytecode_elsewhere_is_not_removed(tmp_path, operation):
    site = small_site(tmp_path)
    if operation == "revert":
        patch("apply", site=site)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "compiler.cpython-311.pyc").touch()
    (site / COMPILER).parent.joinpath("__pycache__").symlink_to(elsewhere)
    before = snapshot(tmp_path)
    assert_refused(patch(operation, site=site), "__pycache__", "symlink")
    assert snapshot(elsewhere) == {
        path[10:]: entry for path, entry in before.items() if path[:10] == "elsewhere/"
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from(["applied.json", "journal.json"]))
def test_any_record_changes_nothing_else(tmp_path_factory, data, name):
    """Any value in any place of a true record: it is undone rightly, or refused with nothing changed."""
    root = tmp_path_factory.mktemp("fuzz")
    site = small_site(root)
    pristine = contents(site)
    patch("apply", site=site)
    record = PatchFolder(site).applied
    raw = json.loads(record.read_text())
    place, keys = copy.deepcopy(raw), ["line", "patches", "files"]
    spot = data.draw(st.sampled_from([*keys, "path", "before", "after"]))
    (place if spot in keys else place["files"][0])[spot] = data.draw(JSON)
    record.write_text(json.dumps(place))
    if name != record.name:
        record.rename(record.with_name(name))
    before = snapshot(root)
    code, _, err = patch("revert", site=site)
    if code == 0:
        assert contents(site) == pristine
    else:
        assert (code, err.count("\n")) == (3, 1)
        assert snapshot(root) == before
    shutil.rmtree(root)


def as_user(uid, operation, site):
    """`patch OPERATION` in a child that runs as another user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(uid)
            os.setuid(uid)
            os.write(writer, json.dumps(patch(operation, site=site)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return tuple(json.loads(text))


NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def open_site(tmp_path_factory, monkeypatch):
    """A site that other users can reach, below a folder of its own."""
    root = tmp_path_factory.mktemp("open")
    for folder in (root, *root.parents):
        if folder.stat().st_mode & 0o005 != 0o005 and folder.stat().st_uid == 0:
            folder.chmod(folder.stat().st_mode | 0o005)
    return small_site(root)


@needs_root
def test_another_user_is_told_and_changes_nothing(open_site):
    for path in contents(open_site):
        (open_site / path).chmod(0o644)
    start = snapshot(open_site)
    assert as_user(NOBODY, "check", open_site)[0] == 1
    assert_refused(as_user(NOBODY, "apply", open_site), "Permission denied", "nothing was changed")
    assert snapshot(open_site) == start
    previous = os.umask(0o077)
    try:
        assert patch("apply", site=open_site)[0] == 0
    finally:
        os.umask(previous)
    assert as_user(NOBODY, "check", open_site)[0] == 0, "umask 077 does not hide the record"
    patched = snapshot(open_site)
    assert_refused(as_user(NOBODY, "revert", open_site), "Permission denied", "nothing was changed")
    assert snapshot(open_site) == patched
    (open_site / ".triton-ascend-compat").chmod(0o700)
    assert_refused(as_user(NOBODY, "check", open_site), "Permission denied")


@needs_root
def test_a_site_of_another_user_stays_theirs(open_site):
    for path in [open_site, *open_site.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    assert patch("apply", site=open_site)[0] == 0
    owners = {path.stat().st_uid for path in open_site.rglob("*") if path.name != "lock"}
    assert owners == {NOBODY}
    assert stat.S_IMODE((open_site / ".triton-ascend-compat").stat().st_mode) == 0o755
    assert patch("revert", site=open_site)[0] == 0
    assert {path.stat().st_uid for path in open_site.rglob("*")} == {NOBODY}
