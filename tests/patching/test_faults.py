"""Every system call fails, once or from then on: the words, the exit code and the bytes agree.

Calls that change the file system, or open or list something in the site, are failed by an audit hook; `stat`
and `fsync`, which have no audit event, by a wrapper. Each run is a child of its own.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys

import pytest

from tests.patching.sites import LINES, contents, patch, patched_contents, small_site, snapshot
from triton_ascend_compat.patching import operations, transaction
from triton_ascend_compat.patching.operations import Condition

EVENTS = {
    *("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.utime", "os.chown", "os.setxattr"),
    *("os.listdir", "os.scandir", "open", "fcntl.flock"),
}
WRAPPED = ("stat", "lstat", "fsync", "fstat")
FAULTS = (errno.EACCES, errno.ENOSPC, errno.EIO)


def fail_calls(site, step, lasting):
    """Fail this process's call number `step` on `site` and, if `lasting`, all after it. Whether it came."""
    fault = FAULTS[step % len(FAULTS)]
    seen = 0

    def count(subject):
        nonlocal seen
        if isinstance(subject, int) or os.fspath(subject).startswith(str(site)):
            seen += 1
            if seen == step + 1 or (lasting and seen > step):
                raise OSError(fault, os.strerror(fault), None if isinstance(subject, int) else str(subject))

    def hook(event, arguments):
        subject = arguments[0] if arguments else None
        if event in EVENTS and isinstance(subject, (int, str, bytes, os.PathLike)):
            count(os.fsdecode(subject) if isinstance(subject, bytes) else subject)

    def wrap(original):
        def call(subject, *args, **kwargs):
            count(subject)
            return original(subject, *args, **kwargs)

        return call

    sys.addaudithook(hook)
    for name in WRAPPED:
        setattr(os, name, wrap(getattr(os, name)))
    return lambda: seen > step


def run_with_fault(operation, site, step, lasting):
    """`patch OPERATION` in a child with a fault: exit code, stdout, stderr; None where it met none."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            happened = fail_calls(site, step, lasting)
            answer = patch(operation, site=site)
            os.write(writer, json.dumps(answer if happened() else None).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, f"step {step}: not an exit with a code"
    answer = json.loads(text)
    return answer and tuple(answer)


def check_words(answer, site, start, operation):
    """What was said is so. `start` is a snapshot of the site before."""
    code, out, err = answer
    if code == 3:
        assert out == ""
        assert err.startswith("Error: ")
        assert err.count("\n") == 1
        assert "nothing was changed" in err
        assert {path: entry for path, entry in snapshot(site).items() if path in start} == start
        left = {path for path in snapshot(site) if path not in start}
        assert all(path.startswith(".triton-ascend-compat") for path in left)
    elif code == 4:
        assert err.count("\n") == (1 if operation != "check" else 0)
        assert "nothing was changed" not in err
        assert operations.check(site).condition is Condition.INTERRUPTED
    elif operation == "check":
        assert code in (0, 1)
        assert snapshot(site) == start
    else:
        assert (code, err) == (0, "")
        expected = Condition.PATCHED if operation == "apply" else Condition.NOT_PATCHED
        assert operations.check(site).condition is expected


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize(
    ("operation", "state"),
    [("check", "pristine"), ("check", "patched"), ("apply", "pristine"), ("revert", "patched")],
)
def test_each_call_fails(tmp_path, monkeypatch, operation, state, lasting):
    monkeypatch.setattr(transaction, "release_lines", lambda: list(LINES.values()))  # read once: it is faster
    template = small_site(tmp_path)
    pristine, patched = snapshot(template), patched_contents(template)
    if state == "patched":
        patch("apply", site=template)
    codes = set()
    for step in range(1000):
        site = shutil.copytree(template, tmp_path / str(step), symlinks=True)
        start = snapshot(site)
        answer = run_with_fault(operation, site, step, lasting)
        if answer is None:
            break
        codes.add(answer[0])
        check_words(answer, site, start, operation)
        # Whatever it was, the next calls find their way.
        if state == "pristine":
            assert patch("apply", site=site)[0] == 0
            assert contents(site) == patched
        assert patch("revert", site=site)[0] == 0
        assert snapshot(site) == pristine
        shutil.rmtree(site)
    assert step > 10
    assert 3 in codes
    assert (4 in codes) == (operation == "revert" or (operation == "apply" and lasting))
    assert 1 not in codes or (operation, state) == ("check", "pristine")
