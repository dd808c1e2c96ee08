"""For a cuda target nothing changes, whether an npu backend is installed beside it or not.

Triton's wheels compile to PTX without a GPU. The environment of each upstream generation runs this twice:
before the stand-in backend is installed, and after.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import HAS_CUDA, HAS_NPU
from test_processes import run, start_up_files  # noqa: F401 - a fixture

SCRIPT = Path(__file__).with_name("cuda_compile.py")
WHERE = "with an npu backend installed" if HAS_NPU else "with no npu backend installed"

pytestmark = pytest.mark.skipif(not HAS_CUDA, reason="this Triton has no cuda backend")


@pytest.fixture(scope="module")
def reports():
    (without,) = run(SCRIPT, plugin=False)
    (with_shim,) = run(SCRIPT, plugin=True)
    assert (without["active"], with_shim["active"]) == (False, HAS_NPU)
    assert with_shim["npu backend"] is HAS_NPU
    return without["found"], with_shim["found"]


@pytest.mark.proves("cuda target", f"same IR, hash and metadata, {WHERE}")
def test_clean(reports):
    without, with_shim = reports
    assert with_shim["clean"] == without["clean"]
    assert ".visible .entry add_one" in without["clean"]["ir"]["ptx"]


@pytest.mark.proves("cuda target", f"leaky constants: same exception and text, {WHERE}")
@pytest.mark.parametrize("leak", ["known option", "absent option", "unknown key", "several"])
def test_leaky(reports, leak):
    without, with_shim = reports
    assert without[leak]["type"] == "ValueError"
    assert without[leak]["text"].endswith("not in list")
    for part in ("type", "mro", "text"):
        assert with_shim[leak][part] == without[leak][part]
    if not HAS_NPU:
        # Dormant: also from the same place.
        assert with_shim[leak]["raised in"] == without[leak]["raised in"]
