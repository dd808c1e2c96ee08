"""The READMEs: each command runs as printed, links lead somewhere, and both languages say the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import textwrap
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("triton")

import triton_ascend_compat
from tests import environments
from triton_ascend_compat import fixes
from triton_ascend_compat.decision.policy import read_installed
from triton_ascend_compat.generations import npu_backend_class

ROOT = Path(__file__).resolve().parent.parent
ENGLISH, CHINESE = "README.md", "README.zh-CN.md"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: What the commands import, and the build backend: there is no network to install them from.
LINKED = ("triton", "pybind11", "numpy", "click", "rich", "unidiff", "markdown_it", "mdurl", "pygments")
BUILD = ("hatchling", "packaging", "pathspec", "pluggy", "trove_classifiers")

SCRIPT = """
import triton
from triton.compiler import ASTSource
from tests.kernels import add_kernel

signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
source = ASTSource(add_kernel, signature, {"XBLOCK": 64, "multibuffer": False})
assert "multibuffer" not in source.constants, "the option has stayed among the constants"
"""


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return [body for found, body in FENCE.findall(text(page)) if found == language]


def commands(page: str) -> list[str]:
    """The lines of the page's shell blocks, without their comments."""
    lines = [line.partition(" #")[0].strip() for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files of this checkout in a repository of their own, with `your_script.py` beside them."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git checkout to copy or to clone from")
    folder = tmp_path_factory.mktemp("checkout")
    git = ("git", "-C", str(folder), "-c", "user.name=a test", "-c", "user.email=a@test")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for words in (["init", "-q"], ["add", "--all"], ["commit", "-q", "-m", "the files as they are"]):
        subprocess.run([*git, *words], check=True)
    (folder / "your_script.py").write_text(SCRIPT)
    return folder


#: Stands for the URL that one would clone; git takes the checkout in its place.
URL = "https://repository.invalid/triton_ascend_compat"

COMPILES = """
from tests.kernels import add_kernel
from triton_ascend_compat.offline import Pointer

add_kernel[(1,)](Pointer("fp32"), Pointer("fp32"), Pointer("fp32"), 4096, XBLOCK=1024)
"""


class Shell:
    """Runs lines as printed, in a fresh environment with pip whose `pip` finds no network and needs none."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        venv.EnvBuilder(with_pip=True, symlinks=True).create(folder)
        scratch = folder / "scratch"
        scratch.mkdir()
        self.checkout = checkout
        (scratch / ".gitconfig").write_text(f'[url "{checkout.as_uri()}"]\n\tinsteadOf = {URL}\n')
        self.variables = {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(scratch),
            "TRITON_HOME": str(scratch),
            "TRITON_CACHE_DIR": str(scratch / "cache"),
            "TRITON_DUMP_DIR": str(scratch / "dump"),
            "COMPAT_REPOSITORY": URL,
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # which is how pip spells "yes" here
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        environments.Environment(folder, self.variables).link(*LINKED, *BUILD)

    def run(self, *lines: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-e", "-c", "\n".join(lines)],
            cwd=self.checkout,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Shell:
    return Shell(tmp_path_factory.mktemp("environment") / "fresh", checkout)


@pytest.fixture(scope="module")
def installed(shell: Shell) -> Shell:
    done = shell.run("pip install .")
    assert done.returncode == 0, done.stdout
    return shell


class TestInstallation:
    def test_the_three_lines_that_fix_it(self, installed: Shell) -> None:
        """In the order printed, and the script fails without the second."""
        three = blocks(ENGLISH, "sh")[0].splitlines()
        assert installed.run(three[0], three[2]).returncode != 0
        done = installed.run(*three)
        assert done.returncode == 0, done.stdout

    def test_from_the_url_that_one_would_clone(self, installed: Shell) -> None:
        (line,) = [line for line in commands(ENGLISH) if "git+" in line]
        done = installed.run(f"{line} --force-reinstall")
        assert done.returncode == 0, done.stdout

    @pytest.mark.parametrize("way", ["site-packages", "pip install --target"])
    def test_the_line_for_python_without_site(self, installed: Shell, tmp_path: Path, way: str) -> None:
        lines = [re.findall(r"`(PYTHONPATH=DIR .*) …`", text(page)) for page in (ENGLISH, CHINESE)]
        assert lines[0] == lines[1]
        ((line,), _) = lines
        folder = Path(installed.variables["HOME"]).parent
        (place,) = folder.glob("lib/python3.*/site-packages")
        if way != "site-packages":
            assert f"`{way}`" in text(ENGLISH)
            assert installed.run(f"{way} {tmp_path / 'target'} .").returncode == 0
            for each in place.iterdir():  # what pip would install there of what it depends on
                if each.is_symlink():
                    (tmp_path / "target" / each.name).symlink_to(each.resolve())
            place = tmp_path / "target"
        printed = line.replace("DIR", str(place)) + " your_script.py"
        without = installed.run(printed.replace("-m triton_ascend_compat run", ""))
        assert without.stdout.endswith("the option has stayed among the constants\n")
        done = installed.run(printed)
        assert done.returncode == 0, done.stdout

    def test_uninstalling_removes_all_files(self, checkout: Path, tmp_path: Path) -> None:
        """What is left says nothing of the package, also with the variable set."""
        assert "`pip uninstall triton-ascend-compat` removes all of its files" in text(ENGLISH)
        own = Shell(tmp_path / "fresh", checkout)
        files = environments.Environment(tmp_path / "fresh", own.variables).files
        before = {name for name in files() if "__pycache__" not in name}
        assert own.run("pip install .").returncode == 0
        done = own.run("pip uninstall -y triton-ascend-compat")
        assert done.returncode == 0, done.stdout
        assert {name for name in files() if "__pycache__" not in name} == before

    def test_the_pinned_triton_ascend_is_the_one_that_is_tested(self) -> None:
        pinned = re.search(r"triton-ascend==([\d.]+)", text(".ci/make-venv"))
        assert pinned is not None
        for page in (ENGLISH, CHINESE, "docs/testing-without-an-npu.md"):
            assert set(re.findall(r"triton-ascend==([\d.]+)", text(page))) == {pinned[1]}, page

    def test_a_python_without_a_wheel_is_named(self, tmp_path: Path) -> None:
        """On a machine that has only a Python too new, one is told which, and what would do."""
        program = '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.12.1 && exit 0\nexit 1\n'
        (tmp_path / "python3").write_text(program)
        (tmp_path / "python3").chmod(0o755)
        done = subprocess.run(
            [str(shutil.which("sh")), str(ROOT / ".ci" / "make-venv"), str(tmp_path / "environment")],
            env={"PATH": str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        passed_over, needed = done.stderr.splitlines()
        assert done.returncode == 1
        assert "python3 is Python 3.12.1" in passed_over
        assert "3.9, 3.10 or 3.11" in needed
        assert "uv" in needed


def printed(start: str) -> list[str]:
    return [line for line in commands(ENGLISH) if line.startswith(start)]


class TestCommands:
    @pytest.mark.parametrize(
        "line", [line for line in printed("triton-ascend-compat ") if " patch " not in line]
    )
    def test_it_runs_as_printed_with_the_shim_on(self, installed: Shell, line: str) -> None:
        done = installed.run("export TRITON_PLUGIN=triton_ascend_compat", line)
        asked = " explain " in line  # answers by its exit code, about the first place that it names
        left_out = asked and "is delivered" not in done.stdout.splitlines()[1]
        assert done.returncode == int(left_out), done.stdout
        assert done.stdout.strip()

    @pytest.mark.parametrize("line", printed("triton-ascend-compat patch"))
    def test_the_patch_commands_are_commands(self, installed: Shell, line: str) -> None:
        """Run in tests/patching, on copies: here they would change the Triton that all tests use."""
        done = installed.run(f"{line} --help")
        assert done.returncode == 0, done.stdout

    @pytest.mark.parametrize("line", printed("make "))
    def test_a_make_target_is_one(self, installed: Shell, line: str) -> None:
        done = installed.run(line.replace("make", "make --dry-run", 1))
        assert done.returncode == 0, done.stdout
        assert ".ci/make-venv" in done.stdout

    def test_no_command_goes_untried(self) -> None:
        tried = (
            "pip install",
            "export TRITON_PLUGIN=",
            "python your_script.py",
            "triton-ascend-compat ",
            "make ",
        )
        assert all(line.startswith(tried) for line in commands(ENGLISH))
        assert sum(line.startswith("pip install") for line in commands(ENGLISH)) == 2

    def test_status_answers_by_its_exit_code(self, installed: Shell) -> None:
        on = installed.run("export TRITON_PLUGIN=triton_ascend_compat", "triton-ascend-compat status")
        off = installed.run("triton-ascend-compat status")
        assert (on.returncode, off.returncode) == (0, 1), on.stdout + off.stdout

    def test_the_workflow_s_lines(self, installed: Shell) -> None:
        (block,) = blocks(ENGLISH, "yaml")
        workflow = yaml.safe_load(block)
        assert list(workflow["env"]) == ["COMPAT_REPOSITORY"]
        steps = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
        install, triton, check = steps
        done = installed.run(f"{install} --force-reinstall")
        assert done.returncode == 0, done.stdout
        assert triton.startswith("pip install triton-ascend==")
        (installed.checkout / "scripts").mkdir(exist_ok=True)
        (installed.checkout / "scripts" / "compile_kernels.py").write_text(COMPILES)
        done = installed.run(
            "export PYTHONPATH=.", check.replace(" --hivm", "")
        )  # bishengir-compile is 160 MB
        assert done.returncode == 0, done.stdout
        assert "1 compiles of 1 kernels" in done.stdout

    @pytest.mark.parametrize("template", ["github-actions.yml", "gitlab-ci.yml"])
    def test_the_lines_of_a_template(self, installed: Shell, template: str) -> None:
        """All but those that fetch from an index, and one that takes an upstream triton away."""
        lines = script_lines(yaml.safe_load(text(f"docs/ci/{template}")))
        from_elsewhere = ("pip install torch", "pip install triton-ascend==", "pip uninstall")
        (installed.checkout / "scripts").mkdir(exist_ok=True)
        (installed.checkout / "scripts" / "compile_kernels.py").write_text(COMPILES)
        own = [line for line in lines if not line.startswith(from_elsewhere)]
        assert any(" check " in line for line in own)
        for line in own:
            ours = line.replace("${{ matrix.chip }}", "$CHIP").replace(" --hivm", "")
            forced = " --force-reinstall" if line.startswith("pip install") else ""
            done = installed.run("export PYTHONPATH=. CHIP=Ascend910B2", ours + forced)
            assert done.returncode == 0, done.stdout
        assert "add_kernel" in (installed.checkout / "ascend.xml").read_text()
        (installed.checkout / "ascend.xml").unlink()


def script_lines(node: Any) -> list[str]:
    """What a workflow or a pipeline runs, in its order."""
    if isinstance(node, list):
        return [line for each in node for line in script_lines(each)]
    if not isinstance(node, dict):
        return []
    found = []
    for key, value in node.items():
        if key in ("run", "before_script", "script"):
            found += [value] if isinstance(value, str) else value
        else:
            found += script_lines(value)
    return [line.strip() for line in found]


class TestClaims:
    def test_the_fixes_and_the_data(self) -> None:
        said = re.search(r"Five fixes \((.*?)\) and two sets\s+of data \((.*?)\)", text(ENGLISH), re.DOTALL)
        assert said is not None
        assert re.findall(r"`(\w+)`", said[1]) == [fix.name for fix in fixes.FIXES]
        assert re.findall(r"`(\w+)`", said[2]) == list(fixes.DATA)

    @pytest.mark.parametrize(
        ("option", "category"),
        [
            ("auto_blockify_size=2", "AbsentOptionWarning"),
            ("disable_fma=True", "SemanticOptionWarning"),
            ("enable_sync_block_lock=True", "CompileOptionError"),
            ("waves_per_eu=2", "AbsentOptionWarning"),
        ],
    )
    def test_what_is_seen_of_a_key(self, installed: Shell, option: str, category: str) -> None:
        """Each example of the table is treated as its row says."""
        name, _, value = option.partition("=")
        installed_options = read_installed(npu_backend_class()).types
        assert name not in installed_options, "the example is no longer one: this release has it"
        (row,) = [line for line in text(ENGLISH).splitlines() if line.startswith("|") and f"`{name}`" in line]
        assert category in row.rpartition(" | ")[2]
        leak = textwrap.dedent(f"""
            import warnings
            from triton.compiler import ASTSource
            from tests.kernels import add_kernel
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                try:
                    signature = {{"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}}
                    ASTSource(add_kernel, signature, {{"XBLOCK": 64, "{name}": {value}}}).parse_options()
                except ValueError as error:
                    print(type(error).__name__)
            print(*(each.category.__name__ for each in said))
        """)
        (installed.checkout / "leak.py").write_text(leak)
        done = installed.run("export TRITON_PLUGIN=triton_ascend_compat", "python leak.py")
        assert done.stdout.split()[-1] == category, done.stdout


class TestPages:
    def test_the_house_is_drawn_as_the_package_draws_it(self) -> None:
        drawn = (triton_ascend_compat.__doc__ or "").partition("imports go down only:\n\n")[2].rstrip()
        assert drawn
        assert drawn in text("CONTRIBUTING.md")

    def test_it_is_read_in_a_few_minutes(self) -> None:
        assert len(text(ENGLISH).splitlines()) < 200

    @pytest.mark.parametrize("page", PAGES)
    def test_links_lead_somewhere(self, page: str) -> None:
        plain = FENCE.sub("", text(page))
        for target in re.findall(r"\]\(([^)\s]+)\)", plain):
            if "://" not in target and not target.startswith("#"):
                path = target.partition("#")[0]
                assert (ROOT / page).parent.joinpath(path).exists(), f"{page}: {target}"

    def test_both_languages_have_one_structure(self) -> None:
        """Headings by level, tables by rows and columns, code blocks line by line without their comments."""

        def headings(page: str) -> list[int]:
            return [len(marks) for marks in re.findall(r"^(#+) ", FENCE.sub("", text(page)), re.MULTILINE)]

        def tables(page: str) -> list[list[int]]:
            found: list[list[int]] = [[]]
            for line in FENCE.sub("", text(page)).splitlines():
                if line.startswith("|"):
                    found[-1].append(line.replace("`|`", "").count("|"))
                elif found[-1]:
                    found.append([])
            return [rows for rows in found if rows]

        def code(page: str) -> list[tuple[str, str]]:
            return [
                (language, re.sub(r"[ \t]+# .*", "", body)) for language, body in FENCE.findall(text(page))
            ]

        def links(page: str) -> set[str]:
            return set(re.findall(r"\]\(([^)\s]+)\)", text(page))) - {ENGLISH, CHINESE}

        for what in (headings, tables, code, links):
            assert what(ENGLISH) == what(CHINESE), what.__name__

    def test_the_table_of_costs_is_the_same(self) -> None:
        def measured(page: str) -> str:
            return (
                text(page).partition("<!-- benchmarks:begin -->")[2].partition("<!-- benchmarks:end -->")[0]
            )

        assert measured(ENGLISH)
        assert measured(ENGLISH) == measured(CHINESE)
