"""A wheel and an editable install both find the patches."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests import environments
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
