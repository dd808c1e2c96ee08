"""The strict applier: exactly the promised result, or a refusal."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unidiff.patch import PatchSet

from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.hunks import apply_hunks

OLD = b"one\ntwo\nthree\nfour\nfive\n"


def diff_of(text: str):
    return PatchSet(f"--- a/f\n+++ b/f\n{text}")[0]


def test_a_hunk_is_placed_by_its_lines():
    assert apply_hunks(diff_of("@@ -2,2 +2,2 @@\n two\n-three\n+3\n"), OLD) == b"one\ntwo\n3\nfour\nfive\n"


def test_line_numbers_do_not_matter_where_the_lines_are_unique():
    diff = diff_of("@@ -40,2 +40,2 @@\n two\n-three\n+3\n")
    assert apply_hunks(diff, b"new\n" + OLD) == b"new\none\ntwo\n3\nfour\nfive\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (OLD.replace(b"three", b"drei"), "is not in the file"),
        (OLD.replace(b"three", b"three "), "is not in the file"),
        (OLD.replace(b"\n", b"\r\n"), "is not in the file"),
        (OLD + OLD, "does not have one place"),
        (b"", "is not in the file"),
    ],
    ids=["other text", "trailing blank", "CRLF", "twice", "empty file"],
)
def test_no_fuzz(data, reason):
    with pytest.raises(PatchError, match=f"f: hunk 1 .*{reason}"):
        apply_hunks(diff_of("@@ -2,2 +2,2 @@\n two\n-three\n+3\n"), data)


def test_hunks_must_come_in_the_order_of_the_file():
    diff = diff_of("@@ -4,1 +4,1 @@\n-four\n+4\n@@ -5,1 +5,1 @@\n-one\n+1\n")
    with pytest.raises(PatchError, match="hunk 2"):
        apply_hunks(diff, OLD)


def test_a_hunk_without_old_lines_has_no_place():
    with pytest.raises(PatchError, match="hunk 1"):
        apply_hunks(diff_of("@@ -2,0 +3,1 @@\n+new\n"), OLD)


@pytest.mark.parametrize("newline", ["old", "new"])
def test_a_missing_final_newline_is_part_of_the_line(newline):
    marker = "\\ No newline at end of file\n"
    old_end, new_end = (marker, "") if newline == "old" else ("", marker)
    diff = diff_of(f"@@ -4,2 +4,2 @@\n four\n-five\n{old_end}+5\n{new_end}")
    with_newline, without = OLD, OLD[:-1]
    good, bad = (without, with_newline) if newline == "old" else (with_newline, without)
    assert apply_hunks(diff, good) == OLD.replace(b"five\n", b"5\n" if newline == "old" else b"5")
    with pytest.raises(PatchError):
        apply_hunks(diff, bad)


TEXT = st.lists(st.sampled_from(["a", "b", "c", "d", "é", "", " x", "\x0c", "-", "+", "\\"]), max_size=12)


@settings(deadline=None)
@given(old=TEXT, new=TEXT, context=st.integers(0, 3))
def test_any_diff_gives_its_result_or_is_refused(old, new, context):
    before, after = ([f"{line}\n" for line in lines] for lines in (old, new))
    parsed = PatchSet("".join(difflib.unified_diff(before, after, "a/f", "b/f", n=context)))
    if not parsed:
        assert before == after
        return
    try:
        result = apply_hunks(parsed[0], "".join(before).encode())
    except PatchError:
        # Only where a hunk's old lines stand elsewhere too, or are none: then not one place in the file.
        assert any(not_one_place(hunk, before) for hunk in parsed[0])
        return
    assert result == "".join(after).encode()


def not_one_place(hunk, lines):
    old = [line.value for line in hunk if line.line_type in (" ", "-")]
    return not old or sum(lines[at : at + len(old)] == old for at in range(len(lines))) != 1
