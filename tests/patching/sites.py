"""Small sites to patch: the patched files of the real triton-ascend 3.2.0, copied from this environment."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import shutil
import stat
from pathlib import Path

import pytest

from triton_ascend_compat.cli import main
from triton_ascend_compat.patching.errors import PatchError
from triton_ascend_compat.patching.site import recognise
from triton_ascend_compat.patching.store import ReleaseLine, release_lines
from triton_ascend_compat.patching.transaction import FOLDER

LINES = {line.name: line for line in release_lines()}
LINE = LINES["3.2.0"]
COMPILER, ERRORS = "triton/compiler/compiler.py", "triton/compiler/errors.py"


def installed_site() -> Path:
    """The site-packages that this environment's triton-ascend 3.2.0 lies in, unpatched."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        pytest.skip("no triton in this environment; these tests copy files of triton-ascend 3.2.0")
    site = Path(spec.origin).resolve().parent.parent
    try:
        found = recognise(site, [LINE])
    except PatchError as error:
        pytest.skip(f"this environment's triton is not triton-ascend 3.2.0: {error}")
    if found.is_patched:
        pytest.skip("this environment's triton-ascend is patched already")
    return site


def small_site(folder: Path) -> Path:
    """A site with the files that the patches for 3.2.0 change, and nothing else of Triton."""
    source, site = installed_site(), folder / "site"
    for path in LINE.paths:
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, site / path)
        os.utime(site / path, (1_700_000_000, 1_700_000_000))
        (site / path).chmod(0o640)
    return site.resolve()


def snapshot(site: Path) -> dict[str, tuple[object, ...]]:
    """Everything in `site`: type, mode, time of change and content of each file, target of each link."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(site.rglob("*")):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        content: object = None
        if stat.S_ISREG(status.st_mode):
            content = (status.st_mtime_ns, path.read_bytes())
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)  # noqa: PTH115 - the text of the link, not a path
        found[str(path.relative_to(site))] = (kind, stat.S_IMODE(status.st_mode), content)
    return found


def contents(site: Path) -> dict[str, bytes]:
    """The patched files of `site`."""
    return {path: (site / path).read_bytes() for path in LINE.paths}


def patched_contents(site: Path, line: ReleaseLine = LINE) -> dict[str, bytes]:
    """What the files of a pristine `site` must be once patched."""
    return {path: line.patched(path, (site / path).read_bytes()) for path in line.paths}


def run_cli(*arguments: str) -> tuple[int, str, str]:
    """Run `triton-ascend-compat ARGUMENTS` in this process: exit code, stdout, stderr."""
    # Not click's CliRunner: how it keeps stderr apart changed with click 8.2.
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
            code: object = 0
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int)
    return code, out.getvalue(), err.getvalue()


def patch(*arguments: str, site: Path) -> tuple[int, str, str]:
    """Run `triton-ascend-compat patch ARGUMENTS --site SITE`."""
    return run_cli("patch", *arguments, "--site", str(site))


def assert_refused(answer: tuple[int, str, str], *words: str) -> None:
    """One clear line on stderr with `words` in it, nothing on stdout, and the exit code of a refusal."""
    code, out, err = answer
    assert code == 3, (out, err)
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def nothing_left_behind(site: Path) -> bool:
    return not (site / FOLDER).exists()
