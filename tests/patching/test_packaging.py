"""A wheel and an editable install both find the patches."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests import environments
from tests.patching.sites import contents, patched_contents, small_site, snapshot
from triton_ascend_compat.patching.store import patches_folder

REPORT = """
import json, triton_ascend_compat
from triton_ascend_compat.patching.store import patches_folder, release_lines
print(json.dumps([
    triton_ascend_compat.__file__,
    str(patches_folder()),
    {line.name: [patch.name for patch in line.patches] for line in release_lines()},
]))
"""


@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_the_installed_package_carries_the_patches(tmp_path, editable):
    assert importlib.util.find_spec("hatchling"), "hatchling builds the wheels of this test"
    (tmp_path / "dist").mkdir()
    wheel = environments.build_wheel(tmp_path / "dist", editable=editable)
    environment = environments.create(tmp_path / "environment")
    environment.link("unidiff")
    environment.pip("install", "--no-deps", "--no-index", str(wheel))
    done = environment.run("-c", REPORT)
    assert done.returncode == 0, done.stderr
    package, folder, lines = json.loads(done.stdout)
    assert Path(package).is_relative_to(environments.ROOT if editable else environment.site_packages)
    shipped = {
        series.parent.name: sorted(file.name for file in series.parent.glob("*.patch"))
        for series in patches_folder().glob("*/series")
    }
    assert lines == shipped
    for path in patches_folder().rglob("*"):
        if path.is_file():
            assert (Path(folder) / path.relative_to(patches_folder())).read_bytes() == path.read_bytes()

    environment.pip("uninstall", "-y", "triton-ascend-compat")
    assert not [name for name in environment.files() if "triton_ascend_compat" in name or "patches" in name]


def test_uninstalling_leaves_the_tree_patched_until_it_is_reverted(tmp_path):
    """pip runs nothing of the package when it removes it; patches/README.md says so, and how to undo it."""
    assert "**not** take the patches out" in (patches_folder() / "README.md").read_text()
    (tmp_path / "dist").mkdir()
    wheel = environments.build_wheel(tmp_path / "dist")
    environment = environments.create(tmp_path / "environment")
    environment.link("unidiff", "click")
    (environment.site_packages / "neighbour.py").touch()  # pip removes a folder in which it sees only links
    site = small_site(tmp_path)
    before, patched = snapshot(site), patched_contents(site)

    def patch(operation):
        done = environment.run("-m", "triton_ascend_compat", "patch", operation, "--site", str(site))
        assert done.returncode == 0, done.stderr
        return done.stdout

    environment.pip("install", "--no-deps", "--no-index", str(wheel))
    patch("apply")
    environment.pip("uninstall", "-y", "triton-ascend-compat")
    assert not [name for name in environment.files() if "triton_ascend_compat" in name]
    assert contents(site) == patched
    environment.pip("install", "--no-deps", "--no-index", str(wheel))
    assert "uninstalling triton-ascend-compat does not" in patch("check")
    patch("revert")
    assert snapshot(site) == before
