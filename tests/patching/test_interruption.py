"""Killed between any two steps: before each call that changes the file system, and half-way through a write.

The child process counts Python's audit events of such calls and dies before the n-th, for every n.
"""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from tests.patching.sites import (
    COMPILER,
    ERRORS,
    contents,
    nothing_left_behind,
    patch,
    patched_contents,
    small_site,
    snapshot,
)
from triton_ascend_compat.patching import operations, transaction
from triton_ascend_compat.patching.operations import Condition
from triton_ascend_compat.patching.transaction import PatchFolder

STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.utime", "os.chown", "os.setxattr"}
KILLED, FINISHED = 77, 0
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def run_and_kill(operation, site, step):
    """Run `operation(site)` in a child that dies before its step number `step`; whether it died."""
    child = os.fork()
    if child == 0:
        try:
            seen = 0

            def count(event, arguments):
                nonlocal seen
                if event in STEPS or (event == "open" and (arguments[2] or 0) & WRITING):
                    seen += 1
                    if seen > step:
                        os._exit(KILLED)

            sys.addaudithook(count)
            operation(site)
            os._exit(FINISHED)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (KILLED, FINISHED)
    return code == KILLED


@pytest.fixture
def site(tmp_path):
    return small_site(tmp_path)


def all_interruptions(operation, start, folder):
    """A site for each step at which `operation`, begun on a copy of `start`, can be killed."""
    for step in range(1000):
        site = shutil.copytree(start, folder / str(step), symlinks=True)
        if not run_and_kill(operation, site, step):
            assert step >= 10, "the steps of the transaction were not seen"
            return
        yield site
    raise AssertionError("never ended")


@pytest.mark.parametrize("operation", ["apply", "revert"])
def test_the_next_call_finishes_or_undoes(site, tmp_path, operation):
    pristine, patched = snapshot(site), patched_contents(site)
    if operation == "revert":
        operations.apply(site)
    conditions = set()
    for killed in all_interruptions(getattr(operations, operation), site, tmp_path):
        conditions.add(operations.check(killed).condition)
        now = contents(killed)
        if now[COMPILER] == patched[COMPILER]:
            assert now[ERRORS] == patched[ERRORS], "a front end that imports what is not there"
        again = shutil.copytree(killed, tmp_path / "again", symlinks=True)

        assert patch("apply", site=killed)[0] == 0
        assert contents(killed) == patched
        assert operations.check(killed).condition is Condition.PATCHED
        assert patch("revert", site=killed)[0] == 0
        assert snapshot(killed) == pristine

        assert patch("revert", site=again)[0] == 0
        assert snapshot(again) == pristine
        shutil.rmtree(again)
        shutil.rmtree(killed)
    assert conditions == set(Condition)


def test_killed_again_while_it_recovers(site, tmp_path):
    pristine = snapshot(site)
    for outer in all_interruptions(operations.apply, site, tmp_path / "outer"):
        if operations.check(outer).condition is not Condition.INTERRUPTED:
            continue
        for step in range(1000):
            inner = shutil.copytree(outer, tmp_path / "inner", symlinks=True)
            died = run_and_kill(operations.revert, inner, step)
            assert patch("revert", site=inner)[0] == 0
            assert snapshot(inner) == pristine
            shutil.rmtree(inner)
            if not died:
                break
        break
    else:
        raise AssertionError("no interruption left a journal")


def test_an_interrupted_run_is_reported_and_a_dry_run_refused(site, tmp_path):
    for killed in all_interruptions(operations.apply, site, tmp_path):
        if not PatchFolder(killed).unfinished():
            continue
        before = snapshot(killed)
        code, out, _ = patch("check", site=killed)
        assert code == 4
        assert "interrupted" in out
        for operation in ("apply", "revert"):
            assert patch(operation, "--dry-run", site=killed)[0] == 3
        assert snapshot(killed) == before
        return
    raise AssertionError("no interruption left a journal")


@pytest.mark.parametrize("nth", range(5))
def test_killed_in_the_middle_of_a_write(site, nth):
    pristine, patched = snapshot(site), patched_contents(site)

    def apply_with_a_torn_write(place):
        write, calls = transaction.write_like, []

        def torn(model, path, data):
            if len(calls) == nth:
                path.write_bytes(data[: len(data) // 2])
                os._exit(KILLED)
            calls.append(path)
            write(model, path, data)

        transaction.write_like = torn
        operations.apply(place)

    assert run_and_kill(apply_with_a_torn_write, site, 10**6)
    assert contents(site) == {path: pristine[path][2][1] for path in patched}
    assert patch("apply", site=site)[0] == 0
    assert contents(site) == patched
    assert patch("revert", site=site)[0] == 0
    assert snapshot(site) == pristine


def interrupt_after_replacing(site, monkeypatch):
    rename = type(site).rename

    def ctrl_c(self, target):
        if self.name == "journal.json":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(type(site), "rename", ctrl_c)
    code, out, err = patch("apply", site=site)
    assert (code, out) == (130, "")
    assert err.count("\n") == 1
    assert "patch check" in err
    monkeypatch.undo()


def test_ctrl_c_is_undone_by_the_next_call(site, monkeypatch):
    pristine = snapshot(site)
    interrupt_after_replacing(site, monkeypatch)
    assert operations.check(site).condition is Condition.INTERRUPTED
    assert patch("revert", site=site)[0] == 0
    assert snapshot(site) == pristine
    assert nothing_left_behind(site)


def test_a_file_edited_after_the_interruption_is_left_alone(site, monkeypatch):
    interrupt_after_replacing(site, monkeypatch)
    path = next(iter(contents(site)))
    (site / path).write_bytes(b"# somebody else\n")
    before = snapshot(site)
    for operation in ("apply", "revert"):
        code, _, err = patch(operation, site=site)
        assert code == 3
        assert path in err
        assert snapshot(site) == before
