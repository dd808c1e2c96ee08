"""Whether what could be sent upstream applies to a checkout, and what its test says there.

    python patches/upstream/check.py CHECKOUT [REVISION]    # of triton-ascend or pytorch; HEAD if left out
    python patches/upstream/check.py SITE_PACKAGES          # of an installed torch: the file of its wheel

CHECKOUT is only read: the files that the series needs are copied into a scratch repository, `git am` puts the
series there, and the unit test that it brings is run before its first and after each of its commits. It needs
pytest and, for pytorch, a torch of about that version, but no NPU. Exit code 0: all applies, the test fails
before and passes after.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Series(NamedTuple):
    """A folder of patches, for trees with the file `told_by`; they and their test read `paths`."""

    folder: str
    told_by: str
    paths: tuple[str, ...]
    test: str


ASCEND = ("python/triton", "third_party/ascend/patch", "third_party/ascend/unittest")
ASCEND_TEST = "third_party/ascend/unittest/pytest_ut/test_options_among_constants.py"
INDUCTOR = "torch/_inductor/runtime"
SERIES = (
    # main keeps its changes to python/triton in the build's patch; release/3.2.2 has them in the files.
    Series("main", "third_party/ascend/patch/triton-ascend-3.6.0.patch", ASCEND, ASCEND_TEST),
    Series("release-3.2.2", "python/triton/compiler/compiler.py", ASCEND, ASCEND_TEST),
    Series(
        "pytorch",
        f"{INDUCTOR}/triton_heuristics.py",
        (f"{INDUCTOR}/triton_heuristics.py",),
        "test/inductor/test_npu_config_options.py",
    ),
)
#: A pytest plugin: the installed torch, with the scratch repository's Inductor files in front of its own.
OVERLAY = f"""
import pathlib, torch._inductor.runtime as runtime
runtime.__path__.insert(0, str(pathlib.Path({INDUCTOR!r}).resolve()))
"""
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


def copy_files(checkout: Path, revision: str, scratch: Path) -> Series:
    """Put the files of the revision, or of an installed torch, into a repository, `scratch`; its series."""
    if next(checkout.glob("torch-*.dist-info"), None):
        for path in SERIES[-1].paths:
            (scratch / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / path, scratch / path)
    else:
        wanted = {path for series in SERIES for path in series.paths}
        here = git("ls-tree", "--name-only", revision, *wanted, cwd=checkout).decode().split()
        archive = git("archive", revision, *here, cwd=checkout)
        subprocess.run(["tar", "x"], cwd=scratch, input=archive, check=True)
    git("init", "-q", ".", cwd=scratch)
    git("add", "-A", cwd=scratch)
    git("commit", "-qm", "as it is", cwd=scratch)
    return next(series for series in SERIES if (scratch / series.told_by).exists())


def passes(scratch: Path, series: Series, test: bytes) -> bool:
    """Whether the unit test `test` passes on the files as they are now."""
    (scratch / series.test).parent.mkdir(parents=True, exist_ok=True)
    (scratch / series.test).write_bytes(test)
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-W", "ignore", "-p", "no:cacheprovider"]
    if series.folder == "pytorch":
        (scratch / ".git" / "overlay.py").write_text(OVERLAY)
        command += ["-p", "overlay"]
    hidden = scratch / ".git"
    environment = {**os.environ, "PYTHONPATH": str(hidden), "TRITON_CACHE_DIR": str(hidden / "cache")}
    command += ["--rootdir=.", series.test]
    done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True)
    print(done.stdout.strip().rpartition("\n")[2] or done.stderr)
    return done.returncode == 0


def main(checkout: Path, revision: str = "HEAD") -> int:
    """Check the series for the revision; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        series = copy_files(checkout, revision, scratch)
        patches = sorted((Path(__file__).parent / series.folder).glob("*.patch"))
        for patch in patches:
            git("am", "--quiet", "--keep-non-patch", str(patch.resolve()), cwd=scratch)
            title = git("log", "-1", "--format=%s", cwd=scratch).decode().strip()
            print(f"{series.folder}/{patch.name[:4]} applies: {title}")
            if not passes(scratch, series, (scratch / series.test).read_bytes()):
                return 1
        test = (scratch / series.test).read_bytes()
        git("checkout", "-q", f"HEAD~{len(patches)}", cwd=scratch)
        print("without the series:")
        return int(passes(scratch, series, test))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:3]))
