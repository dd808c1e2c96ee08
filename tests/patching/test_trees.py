"""The patches on real source trees (`trees.py`): this tool, git, patch and quilt agree, and the front ends
are right. Where a tree is not at hand, the lines that the patches need from it stand for it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.patching import front_end, trees
from tests.patching.sites import LINES, assert_refused, nothing_left_behind, patch, snapshot
from triton_ascend_compat.patching.hunks import apply_hunks
from triton_ascend_compat.patching.store import patches_folder

WITH_CONTEXT = [(name, path) for name, line in LINES.items() for path in line.paths]


def tree_id(tree):
    return f"{tree.line}: {tree.name}"


@pytest.mark.parametrize("tree", trees.TREES, ids=tree_id)
def test_the_tree_is_at_hand(tree):
    if tree not in trees.at_hand():
        pytest.skip(
            f"{tree.name} {tree.commit[:9]} is in no repository of TRITON_ASCEND_GIT: only its vendored lines"
        )


@pytest.fixture(params=trees.at_hand(), ids=tree_id)
def tree(request, tmp_path):
    """A tree with the Python part in `python`, as in a checkout; `tree.name` is the release line."""
    folder = tmp_path / request.param.line
    trees.write_tree(request.param, folder)
    return folder.resolve()


@pytest.mark.parametrize(("line", "path"), WITH_CONTEXT)
def test_every_hunk_has_its_lines(line, path):
    """The series goes through on the vendored lines of the tree, and makes of them what it promises."""
    blocks = trees.read_context()[line][path]
    data = trees.GAP.join("".join(block) for block in blocks).encode()
    texts = []
    for diff in (file for entry in LINES[line].patches for file in entry.diff if file.path == path):
        data = apply_hunks(diff, data)
        texts += [text for hunk in diff for text in hunk]
    # The second patch takes a few lines of the first one out again.
    known = {*data.decode().splitlines(True), *(text.value for text in texts if text.is_removed)}
    added = {text.value for text in texts if text.is_added}
    assert added
    assert added <= known


def test_the_vendored_lines_are_the_tree_s(tree):
    for path, blocks in trees.read_context()[tree.name].items():
        lines, done = (tree / "python" / path).read_text().splitlines(True), 0
        for block in blocks:
            places = [at for at in range(len(lines)) if lines[at : at + len(block)] == block]
            assert len(places) == 1, block
            assert places[0] >= done
            done = places[0] + len(block)


def test_a_plain_checkout_of_main_is_refused(tmp_path):
    """Its files are upstream's; the build makes them triton-ascend's."""
    if trees.repository_with(trees.MAIN_IN_AUGUST) is None:
        pytest.skip("main of August is in no repository of TRITON_ASCEND_GIT")
    trees.write_tree(trees.Tree("3.5", "main, plain", trees.MAIN_IN_AUGUST), tmp_path)
    before = snapshot(tmp_path)
    for operation in ("check", "apply", "revert"):
        assert_refused(patch(operation, site=tmp_path / "python"), "upstream", "build")
        assert snapshot(tmp_path) == before


def run(*command, cwd, **variables):
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def digests(tree):
    files = sorted((tree / "python/triton/compiler").glob("*.py"))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def patch_files(tree):
    return [patches_folder() / tree.name / patch.name for patch in LINES[tree.name].patches]


def tool_result(tree, tmp_path):
    """The digests of the files that this tool makes of `tree`."""
    copy = shutil.copytree(tree, tmp_path / "by-the-tool")
    assert patch("apply", site=copy / "python")[0] == 0
    return digests(copy)


def test_the_tool(tree):
    site = tree / "python"
    before = snapshot(site)
    code, out, _ = patch("check", site=site)
    assert code == 1
    assert f"line {tree.name} " in out
    assert patch("apply", site=site)[0] == 0
    for path in LINES[tree.name].paths:
        compile((site / path).read_bytes(), path, "exec")
    assert patch("revert", site=site)[0] == 0
    assert snapshot(site) == before
    assert nothing_left_behind(site)


def test_git_apply(tree, tmp_path):
    expected, before = tool_result(tree, tmp_path), digests(tree)
    run("git", "init", "-q", ".", cwd=tree)
    for file in patch_files(tree):
        run("git", "apply", "--check", "--directory=python", str(file), cwd=tree)
        run("git", "apply", "--directory=python", str(file), cwd=tree)
    assert digests(tree) == expected
    for file in reversed(patch_files(tree)):
        run("git", "apply", "-R", "--directory=python", str(file), cwd=tree)
    assert digests(tree) == before
    # All at once, as patches/README.md has it.
    series = tmp_path / "series.patch"
    series.write_bytes(b"".join(file.read_bytes() for file in patch_files(tree)))
    run("git", "apply", "--check", "--directory=python", str(series), cwd=tree)
    run("git", "apply", "--directory=python", str(series), cwd=tree)
    assert digests(tree) == expected


def test_patch(tree, tmp_path):
    if shutil.which("patch") is None:
        pytest.skip("no patch command here")
    expected, before = tool_result(tree, tmp_path), digests(tree)
    for file in patch_files(tree):
        out = run("patch", "--dry-run", "-p1", "-d", "python", "-i", str(file), cwd=tree)
        assert "fuzz" not in out
        run("patch", "-p1", "-d", "python", "-i", str(file), cwd=tree)
    assert digests(tree) == expected
    for file in reversed(patch_files(tree)):
        run("patch", "-R", "-p1", "-d", "python", "-i", str(file), cwd=tree)
    assert digests(tree) == before


def test_quilt(tree, tmp_path):
    if shutil.which("quilt") is None:
        pytest.skip("no quilt command here")
    expected, before = tool_result(tree, tmp_path), digests(tree)
    variables = {"QUILT_PATCHES": str(patches_folder() / tree.name), "QUILT_PC": str(tmp_path / "pc")}
    out = run("quilt", "--quiltrc", "-", "push", "-a", "--fuzz=0", cwd=tree / "python", **variables)
    assert "fuzz" not in out
    assert digests(tree) == expected
    run("quilt", "--quiltrc", "-", "pop", "-a", cwd=tree / "python", **variables)
    assert digests(tree) == before


def outcomes(tree):
    script = [sys.executable, "-B", front_end.__file__, str(tree / "python")]
    return json.loads(run(*script, cwd=tree))


def test_the_front_end_with_stand_ins_below_it(tree):
    assert patch("apply", site=tree / "python")[0] == 0
    found = outcomes(tree)

    assert len(set(found["hashes"])) == 4, "who takes the source's hash as a key keeps candidates apart"
    assert found["source"] == {
        "constants": ["BLOCK", "num_stages"],
        "signature": ["x", "BLOCK"],
        "options": {"num_warps": 8, "multibuffer": False},
    }
    assert found["given"] == [
        ["BLOCK", "num_stages", "num_warps", "multibuffer"],
        ["x", "num_warps", "BLOCK"],
    ]
    assert found["clean"] == [[8, None], {}]

    assert found["leaky"] == found["asked"] == found["both"]
    assert len({found["leaky"], found["other"], found["plain"]}) == 3

    for name in ("unknown", "private", "wrong type"):
        text, types, survives_pickling = found[name]
        assert {"OutOfResources", "CompilationError", "ValueError"} <= set(types)
        assert survives_pickling
        assert "kernel" in text
    text = found["unknown"][0]
    assert "'num_warp' is not in list" in text
    assert "x, BLOCK, num_stages" in text
    assert "num_warps" in text.partition("nearest names: ")[2]
    assert "'num_warps'" in found["wrong type"][0]
    assert "takes int, not '8' (str)" in found["wrong type"][0]


def test_what_stays_as_it_was_without_the_patches(tree):
    """Clean sources, and targets other than npu, also the error. And without the patches there is a bug."""
    before = outcomes(tree)
    patch("apply", site=tree / "python")
    after = outcomes(tree)
    for name in ("plain", "asked", "clean", "clean is the caller's dict", "cuda plain", "cuda leaky"):
        assert before[name] == after[name], name
    for name in ("leaky", "unknown"):
        text, types, _ = before[name]
        assert types[0] == "ValueError"
        assert "not in list" in text
