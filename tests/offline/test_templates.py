"""The CI templates are valid YAML, of the shape that their systems read, and call `check` correctly."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from triton_ascend_compat.commands.check import command
from triton_ascend_compat.generations import accepted_chips

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "docs" / "ci").glob("*.yml"))


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from strings(value)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_the_commands_of_a_template(template: Path) -> None:
    found = list(strings(yaml.safe_load(template.read_text())))
    checks = [text for text in found if text.startswith("triton-ascend-compat check")]
    assert checks
    for text in checks:
        words = shlex.split(text.replace("${{ matrix.chip }}", "Ascend910B2").replace("$CHIP", "Ascend910B2"))
        context = command.make_context("check", words[2:])
        assert context.params["chip_names"] == ("Ascend910B2",)
        assert context.params["targets"]
    assert any("triton-ascend==" in text for text in found)
    assert {text for text in found if text.startswith("Ascend9")} <= set(accepted_chips())


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_triton_ascend_is_installed_last(template: Path) -> None:
    """torch may bring an upstream triton, which would overwrite it."""
    pip = [text for text in strings(yaml.safe_load(template.read_text())) if text.startswith("pip ")]
    assert pip[-2:] == ["pip uninstall --yes triton", "pip install triton-ascend==3.2.0 pybind11"]
    assert pip.index("pip install torch") < len(pip) - 2
    assert 'pip install "triton-ascend-compat[hivm] @ git+$COMPAT_REPOSITORY"' in pip


def test_github_s_shape() -> None:
    workflow = yaml.safe_load((ROOT / "docs" / "ci" / "github-actions.yml").read_text())
    assert workflow[True] == ["push", "pull_request"]  # YAML 1.1 reads the key `on` as true
    (job,) = workflow["jobs"].values()
    assert job["runs-on"]
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    assert any(step.get("uses", "").startswith("actions/cache@") for step in job["steps"])
    assert "COMPAT_REPOSITORY" in workflow["env"]
    (kept,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/upload-artifact@")]
    checks = " ".join(step["run"] for step in job["steps"] if " check " in step.get("run", ""))
    assert f"--output {kept['with']['path']}" in checks
    assert "--format github" in checks


def test_gitlab_s_shape() -> None:
    (job,) = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab-ci.yml").read_text()).values()
    assert job["script"]
    assert job["cache"]["paths"]
    assert "COMPAT_REPOSITORY" in job["variables"]
    report = job["artifacts"]["reports"]["junit"]
    assert f"--output {report}" in " ".join(job["script"])


def test_both_systems_have_one() -> None:
    assert [template.name for template in TEMPLATES] == ["github-actions.yml", "gitlab-ci.yml"]
