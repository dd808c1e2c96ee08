"""Whether what could be sent upstream applies to a checkout of triton-ascend, and what its test says there.

    python patches/upstream/check.py CHECKOUT [REVISION]     # REVISION: HEAD where it is left out

CHECKOUT is only read: the files that the series needs are copied from the revision into a scratch repository,
`git am` puts the series there, and the unit test that it brings is run before its first and after each of its
commits (it needs pytest, but no NPU). Exit code 0: all applies, the test fails before and passes after.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PATHS = ("python/triton", "third_party/ascend/patch", "third_party/ascend/unittest")
TEST = "third_party/ascend/unittest/pytest_ut/test_options_among_constants.py"
#: Where main keeps its changes to python/triton; release/3.2.2 has them in the files.
BUILD_PATCH = "third_party/ascend/patch/triton-ascend-3.6.0.patch"
NOBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "nobody"), ("EMAIL", "nobody@example.invalid"))
}


def git(*arguments: str, cwd: Path, data: bytes | None = None) -> bytes:
    """What `git ARGUMENTS` prints; CalledProcessError where it fails."""
    environment = {**os.environ, **NOBODY}
    return subprocess.run(
        ["git", *arguments], cwd=cwd, input=data, env=environment, stdout=subprocess.PIPE, check=True
    ).stdout


def copy_revision(checkout: Path, revision: str, scratch: Path) -> Path:
    """Put the files of the revision into a repository, `scratch`; the folder of the series for them."""
    here = git("ls-tree", "--name-only", revision, *PATHS, cwd=checkout).decode().split()
    subprocess.run(["tar", "x"], cwd=scratch, input=git("archive", revision, *here, cwd=checkout), check=True)
    git("init", "-q", ".", cwd=scratch)
    git("add", "-A", cwd=scratch)
    git("commit", "-qm", "as it is", cwd=scratch)
    return Path(__file__).parent / ("main" if (scratch / BUILD_PATCH).exists() else "release-3.2.2")


def passes(scratch: Path, test: bytes) -> bool:
    """Whether the unit test `test` passes on the files as they are now."""
    (scratch / TEST).write_bytes(test)
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-W", "ignore", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "--rootdir=.", TEST], cwd=scratch, capture_output=True, text=True)
    print(done.stdout.splitlines()[-1])
    return done.returncode == 0


def main(checkout: Path, revision: str = "HEAD") -> int:
    """Check the series for the revision; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        series = copy_revision(checkout, revision, scratch)
        patches = sorted(series.glob("*.patch"))
        for patch in patches:
            git("am", "--quiet", str(patch.resolve()), cwd=scratch)
            print(f"{series.name}/{patch.name} applies")
            if not passes(scratch, (scratch / TEST).read_bytes()):
                return 1
        tests = (scratch / TEST).read_bytes()
        git("checkout", "-q", f"HEAD~{len(patches)}", cwd=scratch)
        print("without the series:")
        return int(passes(scratch, tests))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:3]))
