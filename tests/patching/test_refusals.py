"""What is not known exactly is refused, with one line and nothing changed."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys

import pytest

from tests.patching.sites import (
    COMPILER,
    ERRORS,
    LINE,
    assert_refused,
    contents,
    nothing_left_behind,
    patch,
    patched_contents,
    run_cli,
    small_site,
    snapshot,
)
from triton_ascend_compat.patching import transaction
from triton_ascend_compat.patching.hunks import apply_hunks
from triton_ascend_compat.patching.transaction import PatchFolder


@pytest.fixture
def site(tmp_path):
    return small_site(tmp_path)


def edit(site, path, change):
    (site / path).write_bytes(change((site / path).read_bytes()))


def upstream(site):
    # A stand-in for upstream's file: ours without the error class that upstream does not have.
    edit(site, COMPILER, lambda data: data.replace(b"MLIRCompilationError", b"CompilationError"))


def first_patch_only(site):
    edit(site, COMPILER, lambda data: apply_hunks(LINE.patches[0].diff[0], data))


def one_file_only(site):
    (site / ERRORS).write_bytes(patched_contents(site)[ERRORS])


def linked_out(site, name):
    outside = site.parent / "elsewhere"
    (site / name).rename(outside)
    (site / name).symlink_to(outside)


DAMAGE = {
    "upstream": (upstream, ["is upstream's, not triton-ascend"]),
    "edited front end": (lambda s: edit(s, COMPILER, lambda d: d + b"# mine\n"), [COMPILER, "edited"]),
    "edited errors": (lambda s: edit(s, ERRORS, lambda d: d + b"\n\n# mine\n"), [ERRORS, "edited"]),
    "first patch only": (first_patch_only, ["partly patched"]),
    "one file only": (one_file_only, ["partly patched"]),
    "CRLF": (lambda s: edit(s, COMPILER, lambda d: d.replace(b"\n", b"\r\n")), [COMPILER, "CRLF"]),
    "CRLF in errors": (lambda s: edit(s, ERRORS, lambda d: d.replace(b"\n", b"\r\n")), [ERRORS, "CRLF"]),
    "no final newline": (lambda s: edit(s, COMPILER, lambda d: d[:-1]), [COMPILER, "final newline"]),
    # 3.2.0 was released with an errors.py that has none: an editor adds it.
    "a final newline": (lambda s: edit(s, ERRORS, lambda d: d + b"\n"), [ERRORS, "final newline"]),
    "linked file": (lambda s: linked_out(s, ERRORS), [ERRORS, "symlink", "elsewhere"]),
    "linked folder": (
        lambda s: linked_out(s, "triton/compiler"),
        ["/compiler", "symlink", "elsewhere"],
    ),
    "linked package": (lambda s: linked_out(s, "triton"), ["triton", "symlink", "elsewhere"]),
    "missing file": (lambda s: (s / ERRORS).unlink(), [ERRORS, "No such file"]),
}


@pytest.mark.parametrize("operation", ["check", "apply", "revert"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_refused(site, damage, operation):
    spoil, words = DAMAGE[damage]
    spoil(site)
    before = snapshot(site)
    assert_refused(patch(operation, site=site), *words)
    assert snapshot(site) == before


def test_half_a_patch_is_an_edited_file(site):
    from triton_ascend_compat.patching.store import patches_folder, read_patch

    half = read_patch(patches_folder() / LINE.name / LINE.patches[0].name).diff[0]
    del half[1:]
    edit(site, COMPILER, lambda data: apply_hunks(half, data))
    before = snapshot(site)
    assert_refused(patch("apply", site=site), COMPILER, "edited")
    assert snapshot(site) == before


def test_an_edit_after_patching_is_not_overwritten(site):
    patch("apply", site=site)
    edit(site, COMPILER, lambda data: data + b"# mine\n")
    before = snapshot(site)
    for operation in ("check", "apply", "revert"):
        assert_refused(patch(operation, site=site), COMPILER)
        assert snapshot(site) == before


def test_a_damaged_original_is_not_put_back(site):
    patch("apply", site=site)
    (PatchFolder(site).originals / "0").write_bytes(b"")
    before = snapshot(site)
    assert_refused(patch("revert", site=site), "originals", "damaged")
    assert snapshot(site) == before


def test_an_unreadable_record_is_named(site):
    patch("apply", site=site)
    PatchFolder(site).applied.write_text("{")
    assert_refused(patch("revert", site=site), "applied.json")


def test_a_folder_without_triton(tmp_path):
    assert_refused(patch("apply", site=tmp_path), "does not hold a triton package")
    (tmp_path / "python" / COMPILER).parent.mkdir(parents=True)
    (tmp_path / "python" / COMPILER).touch()
    assert_refused(patch("apply", site=tmp_path), "did you mean --site", "python")


def test_an_environment_without_triton(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert_refused(run_cli("patch", "check"), "no triton package", "--site DIR")


def test_no_such_folder(tmp_path):
    assert_refused(patch("apply", site=tmp_path / "missing"), "missing does not hold a triton package")


def test_two_at_once(site):
    before = contents(site)
    with PatchFolder(site).locked():
        for operation in ("apply",):
            assert_refused(patch(operation, site=site), "another run")
        assert contents(site) == before
    assert nothing_left_behind(site)
    patch("apply", site=site)
    before = contents(site)
    with PatchFolder(site).locked():
        assert_refused(patch("revert", site=site), "another run")
    assert contents(site) == before


def test_many_at_once_patch_once(site):
    before, patched = snapshot(site), patched_contents(site)
    command = [sys.executable, "-m", "triton_ascend_compat", "patch", "apply", "--site", str(site)]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    answers = [(*run.communicate(timeout=60), run.returncode) for run in runs]
    assert {code for _, _, code in answers} <= {0, 3}, answers
    assert any(code == 0 for _, _, code in answers)
    assert all("another run" in err for _, err, code in answers if code == 3)
    assert contents(site) == patched
    assert patch("revert", site=site)[0] == 0
    assert snapshot(site) == before


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")


@pytest.mark.parametrize("nth", range(5))
def test_no_space_for_the_nth_file(site, monkeypatch, nth):
    """Simulated: two originals, two new files and the journal are written."""
    before, calls = snapshot(site), []
    write = transaction.write_like

    def write_until_full(model, path, data):
        calls.append(path)
        if len(calls) > nth:
            path.write_bytes(data[: len(data) // 2])
            full_disk()
        write(model, path, data)

    monkeypatch.setattr(transaction, "write_like", write_until_full)
    assert_refused(patch("apply", site=site), "No space left", "nothing was changed")
    assert snapshot(site) == before


@contextlib.contextmanager
def tmpfs(folder, size):
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill_the_disk(filler):
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


def test_no_space_for_real(tmp_path):
    with tmpfs(tmp_path / "mount", "512k") as mount:
        site = small_site(mount)
        room = sum(len(data) for data in contents(site).values())
        filler = site / "filler"
        fill_the_disk(filler)
        with filler.open("rb+") as file:
            file.truncate(filler.stat().st_size - room)
        before = snapshot(site)
        assert_refused(patch("apply", site=site), "No space left", "nothing was changed")
        assert snapshot(site) == before
        # Taking patches out needs no room.
        filler.unlink()
        assert patch("apply", site=site)[0] == 0
        fill_the_disk(filler)
        assert patch("revert", site=site)[0] == 0
        filler.unlink()
        del before["filler"]
        assert snapshot(site) == before


def test_read_only_for_real(tmp_path):
    with tmpfs(tmp_path / "mount", "512k") as mount:
        site = small_site(mount)
        for operation in ("apply", "revert"):
            if operation == "revert":
                subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
                patch("apply", site=site)
            subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
            before = snapshot(site)
            assert_refused(patch(operation, site=site), "Read-only file system", "nothing was changed")
            assert snapshot(site) == before
            assert patch("check", site=site)[0] == (1 if operation == "apply" else 0)


def test_a_read_only_folder_that_access_does_not_show(site, monkeypatch):
    """Simulated: the replacement of the second file is forbidden (an immutable folder, for root)."""
    before = snapshot(site)
    replace = type(site).replace

    def forbidden(self, target):
        if self.parent.name == "staged" and self.name == "1":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(target))
        return replace(self, target)

    monkeypatch.setattr(type(site), "replace", forbidden)
    assert_refused(patch("apply", site=site), "Operation not permitted", "nothing was changed")
    assert snapshot(site) == before
