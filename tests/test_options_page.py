"""docs/options.md says what is so: its tables are those of the tests, the data and the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tests.fixes import test_launch as launches
from triton_ascend_compat import fixes, settings
from triton_ascend_compat.decision import catalogue
from triton_ascend_compat.errors import AbsentOptionWarning

PAGE = (Path(__file__).parent.parent / "docs" / "options.md").read_text(encoding="utf-8")

GIVEN_AS = {
    launches.constants: "a constant (`ASTSource`)",
    launches.options: "`triton.compile(options={…})`",
    launches.launch: "`kernel[grid](…, opt=v)`",
    launches.warmup: "`kernel.warmup(…, opt=v)`",
    launches.config_dict: "`Config({…, 'opt': v})`",
    launches.config_keyword: "`Config({…}, opt=v)`",
}


def section(heading):
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def table(text):
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if "|" in line
    ]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def words(outcome):
    if isinstance(outcome, type):
        return f"`{outcome.__name__}`"
    return {(): "dropped without a word", (AbsentOptionWarning,): "left out, one warning"}[tuple(outcome)]


def test_the_three_ways_are_those_that_are_tested():
    marked = PAGE.partition("<!-- three-ways:begin -->")[2].partition("<!-- three-ways:end -->")[0]
    assert table(marked) == [
        [GIVEN_AS[way], key, *map(words, launches.THREE_WAYS[key, way])]
        for way in launches.WAYS
        for key in launches.KEYS
    ]


def test_every_rename_is_listed():
    listed = [
        tuple(re.match(r"`(\w+)", cell).group(1) for cell in row) for row in table(section("Renamed options"))
    ]
    assert listed == list(dict.fromkeys((rename.old, rename.new) for rename in catalogue.renames()))


def test_every_fix_is_listed():
    assert [row[0].strip("`") for row in table(section("The fixes"))] == [fix.name for fix in fixes.FIXES]


def test_every_variable_is_listed():
    """Those about options: the log has its place in the README."""
    variables = {value for name, value in vars(settings).items() if name.endswith("_VARIABLE")}
    listed = {row[0].strip("`") for row in table(section("Environment variables"))}
    assert listed == variables - {settings.LOG_VARIABLE}


def test_named_foreign_options_are_in_the_data():
    named = re.findall(r"`(\w+)`", section("Options of other backends").partition("see [foreign")[0])
    assert len(named) >= 5
    assert set(named) <= catalogue.foreign_options().keys()
