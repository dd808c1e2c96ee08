"""The real trees that the patches are for, and where a test gets their files.

triton-ascend 3.2.0 is the installed wheel. The others come from git: set TRITON_ASCEND_GIT to one or several
repositories (separated as in PATH) that hold the commits below. They are only read.

    python -m tests.patching.trees fetch FOLDER      # fetch what they lack into a repository, from github.com
    python -m tests.patching.trees context           # write context.json anew, from the trees at hand

Where no repository is at hand, `context.json` stands for the trees: the lines that the patches touch or need
as context, the same in every one of the line's trees.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.patching.sites import LINES, installed_site

HOME = "https://github.com/triton-lang/triton-ascend"
CONTEXT = Path(__file__).with_name("context.json")
#: What stands between two blocks of the context for the lines that are left out.
GAP = "# (other lines)\n"
#: What the front end in front_end.py is made of.
READ = ("triton/compiler", "triton/runtime/errors.py", "triton/errors.py", "triton/backends/compiler.py")
#: By which the build of main turns upstream's files into triton-ascend's.
BUILD_PATCH = "third_party/ascend/patch/triton-ascend-3.6.0.patch"


class Tree(NamedTuple):
    """One tree of a release line: a commit, or the installed wheel; as it is, or as the build makes it."""

    line: str
    name: str
    commit: str = ""
    built: bool = False


WHEEL = Tree("3.2.0", "wheel")
MAIN_IN_AUGUST = "b4db1e9e45c14f708fa5cbd05d50efa49c023a94"
TREES = (
    WHEEL,
    Tree("3.2.1", "release/3.2.1", "8763c3161ad6968eb5e4fc6e7f8f56ece961eec9"),
    Tree("3.2.1", "v3.2.2", "a4e5e4b53959de21563754641f2193eea067994e"),
    Tree("3.2.1", "release/3.2.2", "d27ae460ce696b063ad2685272be7be9de64ef12"),
    Tree("3.5", "main", "a84b1eb52b6215e2c171632f2df0892f1003cfc8"),
    Tree("3.5", "main, built", MAIN_IN_AUGUST, built=True),
)


def git(*arguments: str, cwd: Path | str, data: bytes | None = None) -> bytes | None:
    """What `git ARGUMENTS` prints, or None where it fails."""
    done = subprocess.run(["git", *arguments], cwd=cwd, input=data, capture_output=True)
    return None if done.returncode else done.stdout


def repository_with(commit: str) -> str | None:
    """The repository of TRITON_ASCEND_GIT that holds `commit`."""
    for folder in filter(os.path.isdir, os.environ.get("TRITON_ASCEND_GIT", "").split(os.pathsep)):
        if git("cat-file", "-e", f"{commit}^{{commit}}", cwd=folder) is not None:
            return folder
    return None


def at_hand() -> list[Tree]:
    """The trees whose files a test can have here."""
    return [tree for tree in TREES if not tree.commit or repository_with(tree.commit)]


def write_tree(tree: Tree, folder: Path) -> None:
    """Put the files of `tree` that the tests read into `folder`, with the Python part in `folder/python`."""
    if tree.commit:
        repository = repository_with(tree.commit)
        assert repository is not None, f"{tree.commit} is in no repository of TRITON_ASCEND_GIT"
        archive = git("archive", tree.commit, *(f"python/{path}" for path in READ), cwd=repository)
        assert archive is not None
    else:
        command = ["tar", "c", "--exclude=__pycache__", "--transform=s,^,python/,", *READ]
        archive = subprocess.run(command, cwd=installed_site(), stdout=subprocess.PIPE, check=True).stdout
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "x", "--no-same-owner"], cwd=folder, input=archive, check=True)
    if tree.built:
        change = git("show", f"{tree.commit}:{BUILD_PATCH}", cwd=repository)
        done = git("apply", "--include=python/triton/compiler/*", cwd=folder, data=change)
        assert done is not None, "the build's own patch does not apply"


def read_context() -> dict[str, dict[str, list[list[str]]]]:
    """For each release line and file, the lines that the patches touch, in blocks, in the file's order."""
    found: dict[str, dict[str, list[list[str]]]] = json.loads(CONTEXT.read_text())
    return found


def blocks(line: str, path: str, text: str) -> list[list[str]]:
    """The lines of the file `path` that a hunk of the line's patches changes or has as context."""
    pristine = text.splitlines(True)
    # Each line with its place in the pristine file, None for those that a patch adds.
    lines: list[tuple[str, int | None]] = [(text, place) for place, text in enumerate(pristine)]
    touched: set[int] = set()
    files = [file for patch in LINES[line].patches for file in patch.diff if file.path == path]
    for hunk in (hunk for file in files for hunk in file):
        old = [text.value for text in hunk if not text.is_added]
        (at,) = (at for at in range(len(lines)) if [text for text, _ in lines[at : at + len(old)]] == old)
        taken = iter(lines[at : at + len(old)])
        touched |= {place for _, place in lines[at : at + len(old)] if place is not None}
        new = [(text.value, None) if text.is_added else next(taken) for text in hunk]
        lines[at : at + len(old)] = [entry for entry, text in zip(new, hunk) if not text.is_removed]
    groups: list[list[str]] = []
    for place in sorted(touched):
        if place - 1 not in touched:
            groups.append([])
        groups[-1].append(pristine[place])
    return groups


def write_context(folder: Path) -> None:
    """Write context.json from the newest tree of each line; every one must be at hand."""
    context = {}
    for tree in {tree.line: tree for tree in TREES}.values():
        write_tree(tree, folder / tree.line)
        context[tree.line] = {
            path: blocks(tree.line, path, (folder / tree.line / "python" / path).read_text())
            for path in LINES[tree.line].paths
        }
    CONTEXT.write_text(json.dumps(context, indent=1) + "\n")


def fetch(folder: Path) -> None:
    """Fetch the commits that no repository of TRITON_ASCEND_GIT holds into one in `folder`."""
    for commit in dict.fromkeys(tree.commit for tree in TREES if tree.commit):
        if repository_with(commit) is None:
            subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True)
            subprocess.run(["git", "fetch", "--quiet", "--depth=1", HOME, commit], cwd=folder, check=True)


if __name__ == "__main__":
    import tempfile

    if sys.argv[1] == "fetch":
        fetch(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            write_context(Path(scratch))
