"""What could be sent upstream: in the form that the maintainers take, and it applies."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patching import trees
from triton_ascend_compat.patching.store import patches_folder

FOLDER = patches_folder() / "upstream"
PATCHES = sorted(FOLDER.glob("*/*.patch"))
COMMITS = {"release-3.2.2": "d27ae460ce696b063ad2685272be7be9de64ef12", "main": trees.MAIN_IN_AUGUST}


#: What a title begins with, by the rule of each project.
TITLES = dict.fromkeys(COMMITS, r"\[\w+\]\((feat|fix|NFC|style|test|chore|revert)\)")
TITLES["pytorch"] = r"\[inductor\]"


def test_there_is_a_series_for_each_branch():
    assert {path.parent.name for path in PATCHES} == set(TITLES)


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: f"{path.parent.name}/{path.name[:4]}")
def test_the_form(path):
    text = path.read_text()
    (title,) = re.findall(r"^Subject: (?:\[PATCH\] )?(.*)$", text, re.MULTILINE)
    assert re.fullmatch(rf"{TITLES[path.parent.name]} \S.*", title)
    assert len(title) <= 72
    assert "Signed-off-by" not in text
    message = text.partition("\ndiff --git ")[0]
    assert "Considered:" in message
    assert "Unchanged:" in message
    assert "triton_ascend_compat" not in text


@pytest.mark.parametrize("branch", COMMITS)
def test_it_applies_and_its_test_tells_before_from_after(branch):
    repository = trees.repository_with(COMMITS[branch])
    if repository is None:
        pytest.skip(f"{branch} {COMMITS[branch][:9]} is in no repository of TRITON_ASCEND_GIT")
    check(repository, COMMITS[branch])


def test_it_applies_to_the_installed_torch():
    """No NPU, and no checkout: the wheel of v2.14.1 has the file."""
    (path,) = FOLDER.glob("pytorch/*.patch")
    (before,) = re.findall(r"^index (\w+)\.\.\w+ 100644$", path.read_text(), re.MULTILINE)
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        pytest.skip("torch is not installed here")
    site = Path(torch.origin).parents[1]
    blob = trees.git("hash-object", "torch/_inductor/runtime/triton_heuristics.py", cwd=site)
    if not blob or not blob.decode().startswith(before):
        pytest.skip("the installed torch has another triton_heuristics.py than v2.14.1")
    check(site)


def check(*arguments):
    """Run check.py; after `git am` each commit has its whole title."""
    command = [sys.executable, str(FOLDER / "check.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for title in re.findall(r"applies: (.*)", done.stdout):
        assert any(re.match(rule, title) for rule in TITLES.values())
