"""The stand-ins for torch_npu, in processes of their own (torch cannot take a device back), and those for the
names of `triton.language.extra`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from triton_ascend_compat.offline import offline, stand_ins

ROOT = Path(__file__).resolve().parents[2]

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
without_torch_npu = pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is not None, reason="torch_npu itself is installed"
)

PROLOGUE = """
import sys
from triton_ascend_compat.offline import offline, stand_ins
"""


def run(code: str) -> None:
    """Run `code` inside an offline session with the stand-ins."""
    lines = "".join(f"    {line}\n" for line in code.strip().splitlines())
    done = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-c"),
            f"{PROLOGUE}with offline('Ascend910_9382'), stand_ins.for_torch_npu():\n{lines}",
        ],
        cwd=ROOT,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@needs_torch
@without_torch_npu
@pytest.mark.parametrize("imports", ["import torch, torch_npu", "import torch_npu, torch"])
def test_torch_npu_is_importable_in_either_order(imports: str) -> None:
    run(f"""
{imports}
assert torch_npu.npu is torch.npu and torch_npu.__spec__.origin == "stand-in"
try:
    torch_npu.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise SystemExit("it has a name that nobody gave it")
""")


@needs_torch
@without_torch_npu
def test_torch_alone_has_the_device_and_is_not_imported_for_it() -> None:
    run("""
assert "torch" not in sys.modules
import torch
assert torch.npu.is_available() and torch.device("npu:0").type == "npu"
assert torch.npu.get_device_name(0) == torch.npu.get_device_properties(0).name == "Ascend910_9382"
with torch.npu.device(0), torch.autocast("npu"), torch.npu.stream(torch.npu.Stream()):
    torch.npu.current_stream().synchronize()
torch.manual_seed(1)
""")


@needs_torch
@without_torch_npu
def test_what_is_put_on_the_device_is_a_cpu_tensor() -> None:
    ways = [
        "torch.empty(3, device='npu')",
        "torch.empty_strided((2, 2), (1, 2), device='npu:0')",
        "torch.zeros((2, 3), dtype=torch.bool, device=torch.device('npu', 0))",
        "torch.randn(3, device='npu', requires_grad=True)",
        "torch.arange(0, 3, device='npu')",
        "torch.randint(0, 3, (4,), device='npu')",
        "torch.randperm(3, device='npu')",
        "torch.tensor([1, 2], device='npu')",
        "torch.full_like(torch.ones(2), 3, device='npu')",
        "torch.tril_indices(3, 3, device='npu')",
        "torch.ones(2).new_zeros(3, device='npu')",
        "torch.ones(2).to('npu', torch.float16)",
        "torch.ones(2, 2).t().npu()",
        "torch.nn.Linear(2, 2).to('npu').weight",
        "torch.nn.Linear(2, 2).npu()(torch.ones(2, device='npu'))",
    ]
    checks = "".join(f'assert ({way}).device.type == "cpu", "{way}"\n' for way in ways)
    run(f"""
import torch
{checks}
torch.set_default_device("npu")
assert torch.ones(2).device.type == "cpu"
""")


@needs_torch
@without_torch_npu
def test_a_copy_is_a_copy_both_ways() -> None:
    """Expected values that a test computes from the host's tensor must not change with the kernel's."""
    run("""
import torch
host = torch.ones(4, requires_grad=True)
for device in (host.npu(), host.to("npu"), host.to("npu:0")):
    back = device.cpu()
    device.detach().zero_()
    assert host.detach().sum() == 4 and back.detach().sum() == 4
    back.sum().backward()
assert host.grad.tolist() == [3.0] * 4
""")


@needs_torch
@without_torch_npu
def test_attention_is_right_and_refuses_what_it_does_not_do() -> None:
    run("""
import torch, torch_npu
q, k, v = (torch.randn(1, 2, 8, 4, device="npu") for _ in range(3))
got = torch_npu.npu_fusion_attention(q, k, v, 2, input_layout="BNSD", scale=0.5)[0]
want = (q @ k.transpose(-1, -2) * 0.5).softmax(-1) @ v
torch.testing.assert_close(got, want)
try:
    torch_npu.npu_fusion_attention(q, k, v, 2, input_layout="BNSD", keep_prob=0.5)
except NotImplementedError as error:
    assert "keep_prob" in str(error)
else:
    raise SystemExit("dropout was left out without a word")
""")


def test_afterwards_torch_npu_is_gone() -> None:
    with stand_ins.for_torch_npu():
        assert importlib.util.find_spec("torch_npu") is not None
    assert "torch_npu" not in sys.modules
    assert importlib.util.find_spec("torch_npu") is None


def test_an_installed_torch_npu_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_npu.py").write_text("real = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    with stand_ins.for_torch_npu():
        assert importlib.import_module("torch_npu").real
        assert sys.meta_path == before
    monkeypatch.delitem(sys.modules, "torch_npu")


def test_both_names_are_the_same_modules_and_go_with_the_session() -> None:
    extra = importlib.import_module("triton.language.extra")
    language = importlib.import_module("triton.language")
    before = {name for name in sys.modules if name.startswith(extra.__name__)}
    attributes = set(vars(extra))
    with offline():
        for child in ("", ".libdevice", ".extension"):
            modules = [
                importlib.import_module(f"{extra.__name__}.{name}{child}") for name in ("ascend", "cann")
            ]
            assert modules[0] is modules[1]
        assert importlib.import_module(f"{extra.__name__}.cann.extension").load is language.load
        with offline():
            pass
        assert extra.cann is extra.ascend
    assert {name for name in sys.modules if name.startswith(extra.__name__)} == before
    assert set(vars(extra)) == attributes


def test_a_release_that_has_both_names_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = importlib.import_module("triton.language.extra")
    own = object()
    monkeypatch.setattr(extra, "cann", own, raising=False)
    with offline():
        assert extra.cann is own
