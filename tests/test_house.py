"""The house: which module may import which, what `import triton` pays for, where things stand."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import triton_ascend_compat

NAME = "triton_ascend_compat"
PACKAGE = Path(triton_ascend_compat.__file__).parent
TREES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).replace(".__init__", ""): ast.parse(
        path.read_text(encoding="utf-8")
    )
    for path in sorted(PACKAGE.rglob("*.py"))
}
#: What is built on the core; the core knows nothing of it.
ABOVE = {"offline", "checking", "patching", "commands", "pytest_plugin", "cli", "__main__", "_demo_kernel"}
CORE = {module: tree for module, tree in TREES.items() if module.partition(".")[0] not in ABOVE}


def _is_for_types_only(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(tree, lazy):
    """The modules that a module imports, ours without the package's name, when it is imported; or, with
    `lazy`, at any time."""
    found, nodes = set(), list(tree.body)
    while nodes:
        node = nodes.pop()
        if _is_for_types_only(node):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            of_module = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {each for each in of_module if each.removeprefix(f"{NAME}.") in TREES} or {node.module}
        if lazy or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            nodes += ast.iter_child_nodes(node)
    return {each.removeprefix(f"{NAME}.") for each in found}


def rooms(tree, lazy=True):
    return {each.partition(".")[0] for each in imports(tree, lazy) if each in TREES}


def floors():
    """Room -> the number of its floor in the package's docstring, counted from the top."""
    lines = triton_ascend_compat.__doc__.partition("imports go down only:\n\n")[2].splitlines()
    column = lines[0].index("what people call")
    names = [[name.strip(" /") for name in line[:column].split(",")] for line in lines]
    return {name: number for number, floor in enumerate(names) for name in floor if name}


class TestImports:
    def test_there_is_no_circle(self):
        needs = {module: imports(tree, lazy=True) & TREES.keys() for module, tree in TREES.items()}
        while needs:
            free = [module for module, wanted in needs.items() if not wanted & needs.keys() - {module}]
            assert free, f"these import each other: {needs}"
            for module in free:
                del needs[module]

    def test_they_go_down_only(self):
        of = floors()
        for module, tree in CORE.items():
            room = module.partition(".")[0]
            for other in rooms(tree, lazy=False) - {room, "__init__"}:
                assert of[other] >= of[room], f"{module} imports {other}, which is above it"

    def test_offline_knows_none_of_those_who_use_it(self):
        users = ABOVE - {"offline", "_demo_kernel"}
        for module in TREES:
            if module.startswith("offline"):
                assert not rooms(TREES[module]) & users, module

    def test_the_docstring_lists_every_room(self):
        there = {module.partition(".")[0] for module in TREES if not module.startswith("_")}
        assert there <= floors().keys()

    def test_the_core_knows_nothing_of_what_is_built_on_it(self):
        for module, tree in CORE.items():
            assert not rooms(tree) & ABOVE, module

    def test_the_decision_needs_nothing_but_data(self):
        for module, tree in TREES.items():
            if module.startswith("decision"):
                assert rooms(tree) <= {"decision", "generations", "settings"}, module
                assert rooms(tree, lazy=False) <= {"decision"}, module

    def test_a_fix_knows_nothing_of_who_installs_it(self):
        for module, tree in TREES.items():
            if module.startswith("fixes"):
                below = {"fixes", "telling", "decision", "shim", "frames", "generations", "errors"}
                assert rooms(tree) <= below, module

    def test_no_module_imports_triton_or_a_dependency_with_it(self):
        others = {"triton", "torch", "torch_npu", "numpy", "click", "rich", "unidiff", "packaging"}
        for module, tree in CORE.items():
            early = {each.partition(".")[0] for each in imports(tree, lazy=False) - TREES.keys()}
            assert not early & others, module


class TestStartUp:
    def test_what_import_triton_gains(self):
        pytest.importorskip("triton")

        def modules(**plugin):
            env = {key: value for key, value in os.environ.items() if key != "TRITON_PLUGIN"}
            command = [sys.executable, "-c", "import sys, triton; print(*sys.modules)"]
            done = subprocess.run(
                command, env={**env, **plugin}, check=True, stdout=subprocess.PIPE, text=True
            )
            return set(done.stdout.split())

        ours = ["", ".errors", ".fixes", ".fixes.constants", ".generations", ".installer", ".settings"]
        ours += [".shim", ".startup", ".startup.import_hook"]
        gained = modules(TRITON_PLUGIN=NAME) - modules()
        assert gained == {f"_{NAME}_start", "gc", *(NAME + each for each in ours)}


class TestFixes:
    def test_folder_table_docs_and_tests_have_the_same_names(self):
        from triton_ascend_compat import fixes

        names = [fix.name for fix in fixes.FIXES]
        assert {f"fixes.{name}" for name in names} == {m for m in TREES if m.startswith("fixes.")}
        page = (PACKAGE.parent / "docs" / "options.md").read_text(encoding="utf-8")
        table = page.partition("\n## The fixes\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == names
        here = Path(__file__).parent / "fixes"
        assert all((here / f"test_{name}.py").is_file() for name in names)

    @pytest.mark.parametrize("module", [module for module in TREES if module.startswith("fixes.")])
    def test_each_says_why_how_where_and_until_when(self, module):
        loaded = importlib.import_module(f"{NAME}.{module}")
        assert all(len(getattr(loaded, text)) > 20 for text in ("WHY", "HOW", "UNTIL"))
        assert loaded.UPSTREAM.startswith("https://github.com/")


class TestSize:
    def test_functions_are_short(self):
        for module, tree in CORE.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    lines = node.end_lineno - node.lineno + 1
                    assert lines <= 40, f"{module}.{node.name} has {lines} lines"


#: Private names that are Python's own, public in all but the underscore.
PYTHONS = {"_getframe", "_current_frames", "_replace", "_asdict", "_initializing"}


def test_private_names_of_others_stand_in_one_module():
    """And in the offline mode's stand-ins, which take the place of what has them."""
    for module, tree in TREES.items():
        if module == "generations" or module.partition(".")[0] == "offline":
            continue
        defined = {
            getattr(node, "name", None) or getattr(node, "id", None) or getattr(node, "attr", None)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            or (isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store))
        }
        for node in ast.walk(tree):
            used = node.attr if isinstance(node, ast.Attribute) else ""
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used = node.value if node.value.isidentifier() else ""
                assert "triton._" not in node.value, f"{module}:{node.lineno}: {node.value}"
            if re.match("_[a-zA-Z]", used) and used not in PYTHONS | defined:
                assert used in {each.rpartition(".")[2] for each in TREES} | {f"_{NAME}_start"}, (
                    f"{module}:{node.lineno}: {used} is somebody's private name"
                )


def test_at_the_top_level_are_the_four_given_names_and_the_customary_ones():
    root = PACKAGE.parent
    if not (root / ".git").exists():
        pytest.skip("no git checkout: what belongs to the project is not known")
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    folders = {path.partition("/")[0] for path in listed.stdout.splitlines() if "/" in path}
    assert folders == {NAME, "patches", "tests", "benchmarks"} | {".ci", "docs"}
