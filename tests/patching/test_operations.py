"""check, apply and revert on a small site: what they say, and that every byte comes back."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys

import pytest
from unidiff.patch import PatchSet

from tests.patching.sites import (
    COMPILER,
    ERRORS,
    LINE,
    contents,
    installed_site,
    nothing_left_behind,
    patch,
    patched_contents,
    small_site,
    snapshot,
)
from triton_ascend_compat.patching import operations
from triton_ascend_compat.patching.hunks import apply_hunks
from triton_ascend_compat.patching.store import patches_folder, read_line, sha256


@pytest.fixture
def site(tmp_path):
    return small_site(tmp_path)


def test_check_apply_revert(site):
    before, patched = snapshot(site), patched_contents(site)
    assert patched != contents(site)

    code, out, err = patch("check", site=site)
    assert (code, err) == (1, "")
    assert "not patched" in out
    assert "3.2.0" in out

    code, out, err = patch("apply", site=site)
    assert (code, err) == (0, "")
    assert out.count("\n") == 2
    assert str(site) in out
    assert contents(site) == patched
    assert patch("check", site=site)[0] == 0

    code, out, _ = patch("revert", site=site)
    assert code == 0
    assert out.count("\n") == 2
    assert snapshot(site) == before
    assert patch("check", site=site)[0] == 1


def test_twice_is_once(site):
    before = snapshot(site)
    assert patch("revert", site=site)[0] == 0
    assert snapshot(site) == before
    patch("apply", site=site)
    after = snapshot(site)
    code, out, _ = patch("apply", site=site)
    assert (code, out.count("\n")) == (0, 2)
    assert "nothing to do" in out
    assert snapshot(site) == after
    patch("revert", site=site)
    assert patch("revert", site=site)[0] == 0
    assert snapshot(site) == before


@pytest.mark.parametrize("direction", ["apply", "revert"])
def test_a_dry_run_shows_the_diff_and_changes_nothing(site, tmp_path, direction):
    if direction == "revert":
        patch("apply", site=site)
    before = snapshot(site)
    code, diff, err = patch(direction, "--dry-run", site=site)
    assert code == 0
    assert "nothing was changed" in err
    assert snapshot(site) == before

    # The diff is true: `patch` makes with it what the tool makes.
    if shutil.which("patch") is None:
        pytest.skip("no patch command here")
    copy = shutil.copytree(site, tmp_path / "copy")
    subprocess.run(["patch", "-p1", "-s"], cwd=copy, input=diff, text=True, check=True)
    patch(direction, site=site)
    assert contents(copy) == contents(site)


def test_mode_is_kept_and_hard_links_are_left_alone(site):
    """uv and conda link installed files to their caches: those must keep the released content."""
    other = site.parent / "cache.py"
    os.link(site / COMPILER, other)
    before = other.read_bytes()
    patch("apply", site=site)
    assert other.read_bytes() == before
    assert (site / COMPILER).stat().st_mode & 0o777 == 0o640


def test_nothing_is_added_to_the_triton_package(site):
    """Triton's cache key covers each module in it, and pip would not remove what we add."""
    before = {path for path in snapshot(site) if path.startswith("triton")}
    patch("apply", site=site)
    assert {path for path in snapshot(site) if path.startswith("triton")} == before


def test_an_installation_that_was_replaced_since_can_be_patched_again(site):
    patched = patched_contents(site)
    patch("apply", site=site)
    for path in LINE.paths:
        shutil.copy2(installed_site() / path, site / path)
    assert patch("check", site=site)[0] == 1
    assert patch("apply", site=site)[0] == 0
    assert contents(site) == patched
    assert patch("revert", site=site)[0] == 0
    assert nothing_left_behind(site)


def test_reverting_after_a_reinstallation_only_cleans_up(site):
    patch("apply", site=site)
    for path in LINE.paths:
        shutil.copy2(installed_site() / path, site / path)
    before = contents(site)
    assert patch("revert", site=site)[0] == 0
    assert contents(site) == before
    assert nothing_left_behind(site)


def test_patches_put_in_by_hand_are_seen_but_not_reverted(site):
    for path, data in patched_contents(site).items():
        (site / path).write_bytes(data)
    before = snapshot(site)
    code, out, _ = patch("check", site=site)
    assert code == 0
    assert "not by this tool" in out
    assert patch("apply", site=site)[0] == 0
    code, _, err = patch("revert", site=site)
    assert code == 3
    assert "patch -R" in err
    assert snapshot(site) == before


def test_what_another_version_of_the_patches_did_can_be_reverted(site, tmp_path):
    """The record and the originals decide, not the patches that this version carries."""
    before, ours = contents(site), patched_contents(site)
    operations.apply(site, lines=[older_line(tmp_path)])
    assert contents(site) not in (before, ours)
    assert patch("check", site=site)[0] == 0
    assert patch("apply", site=site)[0] == 0
    assert patch("revert", site=site)[0] == 0
    assert contents(site) == before


def older_line(tmp_path):
    """The line with another text in what its last patch adds to errors.py."""
    folder = tmp_path / LINE.name
    shutil.copytree(patches_folder() / LINE.name, folder)
    file, old = folder / LINE.patches[1].name, (installed_site() / ERRORS).read_bytes()
    text = file.read_text().replace("A name among the constants is", "A constant is")
    given = LINE.patches[1].hashes[ERRORS][0][1]
    file.write_text(text.replace(given, sha256(apply_hunks(PatchSet(text)[1], old))))
    return read_line(folder)


def tiny_line(tmp_path):
    """A stand-in release line: one file, and a patch that keeps its size."""
    old, new = b"VALUE = 1\n", b"VALUE = 2\n"
    folder = tmp_path / "patches" / "tiny"
    folder.mkdir(parents=True)
    (folder / "series").write_text("0001-x.patch\n")
    (folder / "0001-x.patch").write_text(
        f"Description: x\nExpects: {sha256(old)} {COMPILER}\nGives: {sha256(new)} {COMPILER}\n---\n"
        f"--- a/{COMPILER}\n+++ b/{COMPILER}\n@@ -1,1 +1,1 @@\n-VALUE = 1\n+VALUE = 2\n"
    )
    site = tmp_path / "tiny-site"
    (site / COMPILER).parent.mkdir(parents=True)
    (site / COMPILER).write_bytes(old)
    for package in ("triton", "triton/compiler"):
        (site / package / "__init__.py").touch()
    return read_line(folder), site


@pytest.mark.parametrize(
    "mode",
    [py_compile.PycInvalidationMode.TIMESTAMP, py_compile.PycInvalidationMode.UNCHECKED_HASH],
    ids=["timestamp", "unchecked hash"],
)
@pytest.mark.parametrize("optimize", [0, 2])
def test_python_never_runs_the_bytecode_of_the_other_state(tmp_path, mode, optimize):
    """The file keeps its size, and all happens within a second."""
    line, site = tiny_line(tmp_path)

    def value():
        py = ["-O"] * optimize
        code = "import sys; sys.path.insert(0, sys.argv[1]);"
        code += "import triton.compiler.compiler as c; print(c.VALUE)"
        done = subprocess.run(
            [sys.executable, *py, "-c", code, str(site)], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def cache():
        py_compile.compile(
            str(site / COMPILER), doraise=True, invalidation_mode=mode, optimize=optimize, quiet=2
        )

    cache()
    assert value() == "1"
    operations.apply(site, lines=[line])
    assert value() == "2"
    cache()
    operations.revert(site, lines=[line])
    assert value() == "1"


def test_a_cache_kept_elsewhere_is_outdated_by_the_time_stamp(tmp_path, monkeypatch):
    """PYTHONPYCACHEPREFIX: those files cannot be found, so the whole seconds of the mtime must differ."""
    line, site = tiny_line(tmp_path)
    seconds = [int((site / COMPILER).stat().st_mtime)]
    operations.apply(site, lines=[line])
    seconds.append(int((site / COMPILER).stat().st_mtime))
    operations.revert(site, lines=[line])
    assert seconds[0] != seconds[1]
    assert int((site / COMPILER).stat().st_mtime) == seconds[0]
