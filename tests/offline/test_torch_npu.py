"""The stand-in for `torch.npu`, in processes of its own: torch cannot take a device type back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_answers_for_the_chip_of_the_session() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    done = run(
        "import torch\n"
        "from triton_ascend_compat.offline import offline, torch_npu\n"
        "assert not hasattr(torch, 'npu')\n"
        "with offline('Ascend910_9382'):\n"
        "    torch_npu.install()\n"
        "    assert torch.npu.is_available()\n"
        "    assert torch.npu.get_device_name(0) == 'Ascend910_9382'\n"
        "    assert torch.device('npu').type == 'npu'\n"
        "    with torch.npu.device(0), torch.autocast('npu'):\n"
        "        torch.npu.synchronize()\n"
        "    before = torch.npu\n"
        "    torch_npu.install()\n"
        "    assert torch.npu is before\n"
    )
    assert done.returncode == 0, done.stderr


def test_it_needs_a_session() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    done = run("from triton_ascend_compat.offline import torch_npu\ntorch_npu.install()\n")
    assert "install it inside offline(…)" in done.stderr
