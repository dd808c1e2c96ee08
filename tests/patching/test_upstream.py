"""What could be sent upstream: in the form that triton-ascend's maintainers take, and it applies."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.patching import trees
from triton_ascend_compat.patching.store import patches_folder

FOLDER = patches_folder() / "upstream"
PATCHES = sorted(FOLDER.glob("*/*.patch"))
COMMITS = {"release-3.2.2": "d27ae460ce696b063ad2685272be7be9de64ef12", "main": trees.MAIN_IN_AUGUST}


def test_there_is_a_series_for_each_branch():
    assert {path.parent.name for path in PATCHES} == set(COMMITS)


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: f"{path.parent.name}/{path.name[:4]}")
def test_the_form(path):
    text = path.read_text()
    (title,) = re.findall(r"^Subject: (?:\[PATCH\] )?(.*)$", text, re.MULTILINE)
    assert re.fullmatch(r"\[[\w ]+\]\((feat|fix|NFC|style|test|chore|revert)\) \S.*", title)
    assert len(title) <= 72
    assert "Signed-off-by" not in text
    message = text.partition("\n---\n")[0]
    assert "Considered:" in message
    assert "Unchanged:" in message
    assert "triton_ascend_compat" not in text.partition("\n---\n")[2]


@pytest.mark.parametrize("branch", COMMITS)
def test_it_applies_and_its_test_tells_before_from_after(branch):
    repository = trees.repository_with(COMMITS[branch])
    if repository is None:
        pytest.skip(f"{branch} {COMMITS[branch][:9]} is in no repository of TRITON_ASCEND_GIT")
    command = [sys.executable, str(FOLDER / "check.py"), repository, COMMITS[branch]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
