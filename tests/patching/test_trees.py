"""The patches on real source trees: this tool, git, patch and quilt agree, and the front ends are right.

The tree of triton-ascend 3.2.0 is the installed wheel. For the other lines set TRITON_ASCEND_CHECKOUT_3_2_1
and TRITON_ASCEND_CHECKOUT_3_5 to checkouts of github.com/triton-lang/triton-ascend (branches release/3.2.1
and main); they are only read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patching import front_end
from tests.patching.sites import LINES, installed_site, nothing_left_behind, patch, snapshot
from triton_ascend_compat.patching.store import patches_folder

CHECKOUTS = {"3.2.1": "TRITON_ASCEND_CHECKOUT_3_2_1", "3.5": "TRITON_ASCEND_CHECKOUT_3_5"}
#: What the front end in front_end.py is made of.
READ = ["triton/compiler", "triton/runtime/errors.py", "triton/errors.py", "triton/backends/compiler.py"]


def source_of(line):
    if line == "3.2.0":
        return installed_site()
    variable = CHECKOUTS[line]
    if variable not in os.environ:
        pytest.skip(f"{variable} is not set to a checkout of triton-ascend for line {line}")
    return Path(os.environ[variable]) / "python"


@pytest.fixture(params=list(LINES))
def tree(request, tmp_path):
    """A tree with the Python part in `python`, as in a checkout; `tree.name` is the release line."""
    source, tree = source_of(request.param), tmp_path / request.param
    for path in READ:
        target = tree / "python" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (source / path).is_dir():
            shutil.copytree(source / path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source / path, target)
    return tree.resolve()


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
