"""The corpus: its list of operators is well formed, and its page tells what `check` told."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.checking.test_check import in_a_project
from tests.checking.test_targets import KERNELS, check

__all__ = ["in_a_project"]

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
LISTED = json.loads((BENCHMARKS / "corpus" / "operators.json").read_text())

#: Stands in for the real one, which needs torch and packages of 2 GB: three kernels, two of which compile.
OPERATORS = f"""{KERNELS}
import os, sys

def call(n):
    with contextlib.suppress(Exception):
        one[(1,)](Y, n)
    two[(1,)](Y, n)

def main(package):
    for n in (2, 8):
        if os.fork() == 0:
            operators = sys.modules.get("operators") or sys.modules["__main__"]
            return operators.call(n)
        os.wait()
    print("its own words")
    print("stopped: gone (exit code -6)")

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def renderer(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("offline_corpus", BENCHMARKS / "offline_corpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PACKAGES", ("mine",))
    return module


def values(data: Any) -> list[Any]:
    if isinstance(data, (list, dict)):
        return [each for item in (data.values() if isinstance(data, dict) else data) for each in values(item)]
    return [data]


@pytest.mark.parametrize("package", LISTED)
def test_each_text_among_the_arguments_is_a_tensor(package: str) -> None:
    dtypes = re.findall(r'"(\w+)": torch\.', (BENCHMARKS / "corpus" / "operators.py").read_text())
    assert LISTED[package]["modules"]
    for name, arguments in LISTED[package]["operators"].items():
        texts = [each for each in values(arguments) if isinstance(each, str)]
        assert texts, name
        for text in texts:
            found = re.fullmatch(r"(\w+)(\[(\d+(, \d+)*)?\])", text)
            assert found is not None, (name, text)
            assert found[1] in dtypes, (name, text)


def test_the_page_tells_what_check_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("operators.py").write_text(OPERATORS)
    shutil.copy(BENCHMARKS / "corpus" / "injected.py", "injected.py")
    module = renderer(monkeypatch)
    told = {}
    for script in ("operators.py", "injected.py"):
        result = check("--format=json", f"{script} mine")
        told[script] = [module.Outcome.from_dict(each) for each in json.loads(result.stdout)["targets"]]
    page = module.page(told["operators.py"], told["operators.py"], told["injected.py"], "versions")
    tables = [line for line in page.splitlines() if line.startswith("| mine")]
    assert "| mine | 1 of 2 kernels whole, 3 of 4 configs |" in tables
    assert "| mine | 2 | 2 | 2 | 2 | 0 |" in tables
    assert "| mine | `one` | (generated) | 1/2 |" in tables
    assert re.search(r"^- `one` \(mine\): .*too large.* \(1 configs: Ascend910B2 linalg\)$", page, re.M)
    assert "- gone (exit code -6): its own words (Ascend910B2 linalg)" in page
