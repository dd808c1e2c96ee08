"""The page about CI names all options, settings and exit codes that there are, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from triton_ascend_compat.commands import check

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing-without-an-npu.md").read_text(encoding="utf-8")
CHECK, PLUGIN = PAGE.split("## In pytest")[0], PAGE.split("## In pytest")[1].split("## In your own code")[0]


def first_column(page: str) -> set[str]:
    return set(re.findall(r"^\| `(--?[a-z-]+)", page, re.MULTILINE))


def test_the_options_of_check() -> None:
    options = {name for each in check.command.params if isinstance(each, click.Option) for name in each.opts}
    assert first_column(CHECK) == options - {"-h", "--help"}


@pytest.mark.parametrize("name", ["report_format", "leaks", "tuner_failures"])
def test_their_values(name: str) -> None:
    (option,) = [each for each in check.command.params if each.name == name]
    assert isinstance(option.type, click.Choice)
    assert f"| `{option.opts[0]} " + r"\|".join(option.type.choices) + "`" in CHECK


def test_the_exit_codes() -> None:
    told = ", ".join(re.findall(r"^\| ([0-9, ]+) \|", CHECK, re.MULTILINE))
    text = str(check.command.help).partition("Exit code:")[2]
    assert told.split(", ") == re.findall(r"\b\d+\b", text)


def test_the_options_settings_and_marker_of_the_plugin(pytestconfig: pytest.Config) -> None:
    plugin = pytestconfig.pluginmanager.get_plugin("triton_ascend_compat.pytest_plugin")
    assert plugin is not None
    parser = pytest.Parser(_ispytest=True)
    plugin.pytest_addoption(parser)
    options = {name for group in parser._groups for option in group.options for name in option.names()}
    settings = {name for name in parser._inidict if name.startswith("ascend_")}
    assert first_column(PLUGIN) == options
    assert set(re.findall(r"\| `(ascend_[a-z_]+)", PLUGIN)) == settings
    marker = next(line for line in pytestconfig.getini("markers") if line.startswith(plugin.MARKER))
    assert f"`{marker.partition(':')[0]}`" in PLUGIN
