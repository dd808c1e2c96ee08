"""The patches against their series files, their headers and the table of patches/README.md, both ways."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from tests.patching.sites import LINES
from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.store import patches_folder, read_line, read_patch, release_lines, sha256

FOLDER = patches_folder()
PATCHES = [(line, patch) for line in LINES.values() for patch in line.patches]
each_patch = pytest.mark.parametrize(
    ("line", "patch"), PATCHES, ids=[f"{line.name}/{patch.name}" for line, patch in PATCHES]
)

FIELDS = ["Description", "Origin", "Bug", "Forwarded", "Last-Update", "Remove-When", "Expects", "Gives"]


def test_every_folder_has_a_series_and_every_series_is_read():
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir()} - {"upstream"}
    assert folders == set(LINES)
    assert folders == {path.parent.name for path in FOLDER.glob("*/series")}


@pytest.mark.parametrize("name", LINES)
def test_series_and_folder_hold_the_same_patches_in_order(name):
    in_folder = sorted(path.name for path in (FOLDER / name).iterdir() if path.name != "series")
    assert [patch.name for patch in LINES[name].patches] == in_folder
    for number, patch in enumerate(in_folder, start=1):
        assert re.fullmatch(rf"{number:04}-[a-z0-9-]+\.patch", patch)


@each_patch
def test_the_header_is_whole(line, patch):
    assert list(dict.fromkeys(patch.header)) == FIELDS
    assert all(value.strip() for value in patch.header.values())
    assert "\n" in patch.header["Description"], "a summary, then what and why"
    assert patch.header["Forwarded"] in {"no", "not-needed"} or patch.header["Forwarded"].startswith("http")
    assert datetime.date.fromisoformat(patch.header["Last-Update"]) >= datetime.date(2026, 1, 1)


@each_patch
def test_hashes_are_sha256_and_each_change_is_one(line, patch):
    for pairs in patch.hashes.values():
        for before, after in pairs:
            assert re.fullmatch("[0-9a-f]{64}", before)
            assert re.fullmatch("[0-9a-f]{64}", after)
            assert before != after


@each_patch
def test_a_later_patch_expects_what_earlier_ones_give(line, patch):
    for earlier in line.patches[: line.patches.index(patch)]:
        for path in patch.hashes.keys() & earlier.hashes.keys():
            assert {after for _, after in earlier.hashes[path]} == {b for b, _ in patch.hashes[path]}


@each_patch
def test_it_is_self_contained(line, patch):
    added = [str(text.value) for file in patch.diff for hunk in file for text in hunk if text.is_added]
    assert added
    assert not any("triton_ascend_compat" in text or "triton-ascend-compat" in text for text in added)
    assert max(len(text.rstrip("\n")) for text in added) <= 120, "the column limit of Triton's formatter"
    assert not any(text.rstrip("\n") != text.rstrip() for text in added)
    assert all(file.is_modified_file for file in patch.diff), "pip would not uninstall a file that we add"


@each_patch
def test_context_is_what_is_needed_to_place_it(line, patch):
    """With fewer lines around it some hunk of the file would fit in two places; one line is the least that
    `git apply` and `patch` need."""
    for file in patch.diff:
        runs = []
        for hunk in file:
            kinds = "".join(text.line_type for text in hunk if text.line_type != "\\")
            runs += [len(kinds) - len(kinds.lstrip(" ")), len(kinds) - len(kinds.rstrip(" "))]
        assert 1 <= max(runs) <= 2


def table_rows():
    text = (FOLDER / "README.md").read_text()
    return re.findall(r"^\| `([\w.]+)` \| `([\w.-]+\.patch)` \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)


def test_the_readme_table_lists_exactly_the_patches():
    rows = [(line, name) for line, name, _, _ in table_rows()]
    assert rows == [(line.name, patch.name) for line, patch in PATCHES]


@each_patch
def test_the_readme_row_says_what_the_header_says(line, patch):
    (row,) = [row for row in table_rows() if row[:2] == (line.name, patch.name)]
    assert row[2] == patch.header["Description"].splitlines()[0]
    assert [name.strip("` ") for name in row[3].split(",")] == list(patch.hashes)


def test_the_readme_names_every_known_version():
    text = (FOLDER / "README.md").read_text()
    for line in LINES.values():
        for path in line.paths:
            for history in line.histories(path):
                assert history[0][:12] in text, (line.name, path)
    for short in set(re.findall(r"`([0-9a-f]{12})` \|", text)):
        known = [h for line in LINES.values() for path in line.paths for h in line.histories(path)]
        assert any(history[0].startswith(short) for history in known), short


# What a patch file must not be.

OLD, NEW = b"a = 1\n", b"a = 2\n"
DIFF = "--- a/triton/x.py\n+++ b/triton/x.py\n@@ -1,1 +1,1 @@\n-a = 1\n+a = 2\n"
HEADER = f"Description: x\nExpects: {sha256(OLD)} triton/x.py\nGives: {sha256(NEW)} triton/x.py\n"


def write_line(folder: Path, text: str, series: str = "# comment\n\n0001-x.patch\n"):
    line = folder / "test"
    line.mkdir()
    (line / "series").write_text(series)
    (line / "0001-x.patch").write_bytes(text.encode())
    return line


def test_a_patch_is_read(tmp_path):
    (line,) = release_lines(write_line(tmp_path, f"{HEADER}---\n{DIFF}").parent)
    assert line.paths == ("triton/x.py",)
    assert line.histories("triton/x.py") == [[sha256(OLD), sha256(NEW)]]
    assert line.patched("triton/x.py", OLD) == NEW
    with pytest.raises(PatchError, match="no version that test/0001-x"):
        line.patched("triton/x.py", b"a = 3\n")


def test_a_result_other_than_promised_is_refused(tmp_path):
    line = read_line(write_line(tmp_path, f"{HEADER}---\n{DIFF}".replace(sha256(NEW), "0" * 64)))
    with pytest.raises(PatchError, match="does not give"):
        line.patched("triton/x.py", OLD)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{HEADER}{DIFF}", "no line '---'"),
        (f"{HEADER}---\n{DIFF}".replace("\n", "\r\n"), "CRLF|no line '---'"),
        (f"{HEADER}---\n{DIFF}".replace("a = 1\n", "a = 1\r\n"), "CRLF"),
        (f"{HEADER}---\n{DIFF}".replace("triton/x.py", "../x.py"), "not a path inside"),
        (f"{HEADER}---\n{DIFF}".replace("triton/x.py", "other/x.py"), "not a path inside"),
        (f"{HEADER}---\n{DIFF}".replace(f"Gives: {sha256(NEW)}", "X: x"), "Expects and Gives"),
        (f"Description: x\n---\n{DIFF}", "the header and the diff"),
        (f"{HEADER}---\n{DIFF}".replace("+a = 2\n", ""), "shorter"),
    ],
    ids=["no end", "CRLF", "CRLF in the diff", "escape", "elsewhere", "no result", "no hashes", "cut off"],
)
def test_a_bad_patch_file_is_refused(tmp_path, text, reason):
    folder = write_line(tmp_path, text)
    with pytest.raises(PatchError, match=reason) as caught:
        read_patch(folder / "0001-x.patch")
    assert "test/0001-x.patch" in str(caught.value)


def test_without_patches_the_package_says_so(tmp_path, monkeypatch):
    from triton_ascend_compat.patching import store

    monkeypatch.setattr(store, "__file__", str(tmp_path / "package" / "patching" / "store.py"))
    with pytest.raises(PatchError, match="carries no patches"):
        patches_folder()
