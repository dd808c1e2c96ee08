"""Activation, in real virtual environments and real interpreters: Python always starts."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import environments
from tests.environments import Environment

PLUGIN = "triton_ascend_compat"
STARTUP_FILES = (f"{PLUGIN}.pth", f"{PLUGIN}.start", f"_{PLUGIN}_start.py")

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="no triton in the environment that runs the tests"
)

REPORT = """
import json, sys
import triton_ascend_compat
from triton_ascend_compat.startup import import_hook, progress
state = progress.read()
print(json.dumps({
    "active": triton_ascend_compat.status().active,
    "reason": triton_ascend_compat.status().reason,
    "phase": state.phase.value,
    "why": state.reason,
    "runs": state.runs,
    "hooks": sum(hook.name == "triton" for hook in import_hook.hooks),
    "finders": sys.meta_path.count(import_hook._finder),
    "loaded": sorted({"triton", "torch"} & sys.modules.keys()),
}))
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environments.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The package, installed by pip, and its command line's dependency; no triton."""
    environment = environments.create(tmp_path_factory.mktemp("bare"))
    environment.link("click")
    environment.pip("install", "--no-deps", "--no-index", str(wheel))
    return environment


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The package and the real triton of the running interpreter. Tests leave it as it is."""
    environment = environments.create(tmp_path_factory.mktemp("environment"))
    environment.link("click", "triton", "pybind11")
    environment.unpack(wheel)
    return environment


@pytest.fixture
def fresh(wheel: Path, tmp_path: Path) -> Environment:
    """The package in an environment of this test's own, which it may damage."""
    environment = environments.create(tmp_path / "fresh")
    environment.unpack(wheel)
    return environment


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The last line that a process printed, which REPORT made."""
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


# The variable


@pytest.mark.parametrize("value", [None, ""])
def test_unset_costs_no_import(bare: Environment, value: str | None) -> None:
    code = "import sys; print([name for name in sys.modules if 'triton' in name])"
    done = bare.run("-c", code, **({} if value is None else {"TRITON_PLUGIN": value}))
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


@needs_triton
@pytest.mark.parametrize(
    "value", ["triton_ascend_compat", "triton-ascend-compat", " other , triton-ascend_compat,,"]
)
def test_set_switches_on_when_triton_is_imported(environment: Environment, value: str) -> None:
    before = report(environment.run("-c", REPORT, TRITON_PLUGIN=value))
    assert (before["phase"], before["active"], before["loaded"]) == ("armed", False, [])
    done = environment.run("-c", f"import triton\n{REPORT}", TRITON_PLUGIN=value)
    after = report(done)
    assert (after["phase"], after["active"], after["hooks"]) == ("fired", True, 1)
    assert after["loaded"] == ["triton"]
    assert done.stderr == ""


@needs_triton
def test_without_the_variable_the_shim_is_off(environment: Environment) -> None:
    off = report(environment.run("-c", f"import triton\n{REPORT}"))
    assert (off["phase"], off["active"], off["why"]) == ("not named", False, "TRITON_PLUGIN is not set")


@needs_triton
def test_triton_looks_as_without_the_shim(environment: Environment) -> None:
    code = """
import importlib.util, triton
spec = triton.__spec__
print(type(spec.loader), spec.loader is triton.__loader__, sorted(vars(spec.loader)), spec.origin)
print(importlib.util.find_spec("triton") is spec)
"""
    assert (
        environment.run("-c", code, TRITON_PLUGIN=PLUGIN).stdout == environment.run("-c", code).stdout != ""
    )


@pytest.mark.parametrize("value", ["other", "my_triton_plugin,some-compat", "triton_ascend_plugin"])
def test_other_names_are_other_peoples_business(bare: Environment, value: str) -> None:
    done = bare.run("-c", REPORT, TRITON_PLUGIN=value)
    state = report(done)
    assert (state["phase"], state["hooks"], done.stderr) == ("not named", 0, "")
    assert value in state["why"]


def test_set_inside_a_running_script_is_too_late_for_it_but_not_for_its_children(bare: Environment) -> None:
    code = f"""
import os, subprocess, sys
os.environ["TRITON_PLUGIN"] = "{PLUGIN}"
exec({REPORT!r})
sys.stdout.flush()
subprocess.run([sys.executable, "-c", {REPORT!r}], check=True)
"""
    own, child = map(json.loads, bare.run("-c", code).stdout.splitlines())
    assert (own["phase"], child["phase"]) == ("set too late", "armed")
    assert "after the interpreter started" in own["why"]
    assert "enable()" in own["why"]


# What may be wrong with triton


def test_triton_absent(bare: Environment) -> None:
    code = f"""
for attempt in range(2):
    try:
        import triton
    except ModuleNotFoundError as error:
        print(error)
{REPORT}
"""
    done = bare.run("-c", code, TRITON_PLUGIN=PLUGIN)
    assert report(done)["phase"] == "armed"
    assert done.stdout.splitlines()[:2] == ["No module named 'triton'"] * 2
    assert done.stderr == ""


def test_a_triton_of_unknown_shape_is_left_alone(fresh: Environment) -> None:
    stand_in = fresh.site_packages / "triton"
    stand_in.mkdir()
    (stand_in / "__init__.py").write_text("__version__ = '0'\n", "utf-8")
    done = fresh.run("-c", f"import triton; print(triton.__version__)\n{REPORT}", TRITON_PLUGIN=PLUGIN)
    state = report(done)
    assert done.stdout.startswith("0\n")
    assert (state["phase"], state["active"]) == ("fired", False)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "triton.compiler" in done.stderr


def test_a_triton_that_fails_to_import_fails_as_without_the_shim(fresh: Environment) -> None:
    stand_in = fresh.site_packages / "triton"
    stand_in.mkdir()
    (stand_in / "__init__.py").write_text("raise OSError('no libtriton')\n", "utf-8")
    done = fresh.run("-c", "import triton", TRITON_PLUGIN=PLUGIN)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "OSError: no libtriton"
    done = fresh.run("-c", f"try: import triton\nexcept OSError: pass\n{REPORT}", TRITON_PLUGIN=PLUGIN)
    assert report(done)["phase"] == "armed"


# How the interpreter was started


def test_the_startup_line_run_twice_is_once(bare: Environment) -> None:
    code = f"import site\nsite.addsitedir({str(bare.site_packages)!r}, set())\n{REPORT}"
    state = report(bare.run("-c", code, TRITON_PLUGIN=PLUGIN))
    assert state["runs"] >= 2
    assert (state["hooks"], state["phase"]) == (1, "armed")


@needs_triton
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_are_covered(environment: Environment, tmp_path: Path, method: str) -> None:
    script = tmp_path / "workers.py"
    script.write_text(
        f"""
import multiprocessing, sys

def work(queue):
    import triton, triton_ascend_compat
    queue.put(triton_ascend_compat.status().active)

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    queue = context.Queue()
    worker = context.Process(target=work, args=(queue,))
    worker.start()
    print(queue.get(timeout=60), "triton" in sys.modules)
    worker.join()
""",
        "utf-8",
    )
    done = environment.run(str(script), TRITON_PLUGIN=PLUGIN)
    assert (done.stdout.strip(), done.stderr) == ("True False", "")
    assert environment.run(str(script)).stdout.strip() == "False False"


def test_without_site_nothing_starts_and_the_status_says_why(bare: Environment) -> None:
    code = f"import sys; sys.path.append({str(bare.site_packages)!r})\n{REPORT}"
    done = bare.run("-S", "-c", code, TRITON_PLUGIN=PLUGIN)
    state = report(done)
    assert (state["phase"], state["hooks"], state["runs"], done.stderr) == ("site not processed", 0, 0, "")
    assert "run" in state["why"]


@pytest.mark.parametrize("flag", ["-E", "-I", "-s"])
def test_flags_that_leave_site_alone_leave_the_shim_alone(bare: Environment, flag: str) -> None:
    """-E and -I ignore variables called PYTHON…, which TRITON_PLUGIN is not."""
    done = bare.run(flag, "-c", REPORT, TRITON_PLUGIN=PLUGIN)
    assert (report(done)["phase"], done.stderr) == ("armed", "")


def test_a_package_that_is_on_pythonpath_only_says_that_it_has_no_startup_file(
    wheel: Path, tmp_path: Path
) -> None:
    environment = environments.create(tmp_path / "empty")
    done = environment.run("-c", REPORT, TRITON_PLUGIN=PLUGIN, PYTHONPATH=str(wheel))
    assert report(done)["phase"] == "no start-up file"


# A package that is broken


def break_module(name: str) -> Any:
    def break_it(site_packages: Path) -> None:
        (site_packages / PLUGIN / f"{name}.py").write_text("def broken(:\n", "utf-8")

    return pytest.param(break_it, id=f"syntax error in {name}")


def remove(*names: str) -> Any:
    def remove_them(site_packages: Path) -> None:
        for name in names:
            path = site_packages / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return pytest.param(remove_them, id=f"removed {' '.join(names)}")


def truncate(site_packages: Path) -> None:
    (site_packages / f"_{PLUGIN}_start.py").write_text("def start(", "utf-8")


BREAKAGES = [
    break_module("__init__"),
    break_module("startup/__init__"),
    break_module("startup/import_hook"),
    remove(PLUGIN),
    remove(f"_{PLUGIN}_start.py"),
    remove(PLUGIN, f"_{PLUGIN}_start.py", f"{PLUGIN}.start"),
    pytest.param(truncate, id="start module cut short"),
]


@pytest.mark.parametrize("damage", BREAKAGES)
def test_python_starts_with_a_broken_package(fresh: Environment, damage: Any) -> None:
    damage(fresh.site_packages)
    done = fresh.run("-c", "print('started')", TRITON_PLUGIN=PLUGIN)
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith(PLUGIN)
    done = fresh.run("-c", "print('started')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")


@pytest.mark.parametrize("module", ["installer", "source", "generations"])
def test_triton_is_imported_with_a_broken_package(fresh: Environment, module: str) -> None:
    (fresh.site_packages / PLUGIN / f"{module}.py").write_text("def broken(:\n", "utf-8")
    (fresh.site_packages / "triton.py").write_text("stand_in = True\n", "utf-8")
    done = fresh.run("-c", "import triton; print(triton.stand_in)", TRITON_PLUGIN=PLUGIN)
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_python_starts_without_a_standard_error(fresh: Environment) -> None:
    shutil.rmtree(fresh.site_packages / PLUGIN)
    done = subprocess.run(
        ["sh", "-c", f"exec {fresh.python} -c 'print(1)' 2>&-"],
        env={**fresh.variables, "TRITON_PLUGIN": PLUGIN},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "1\n")


# Python 3.15


def processed_as_by_python_3_15(site_packages: Path) -> str:
    """Code that does to the start-up files what PEP 829 asks: a stand-in for an interpreter that does.

    Import lines of a .pth with a .start of the same name are not run; each line of the .start file that is
    neither empty nor a comment names a callable, which is resolved and called without arguments. What it
    raises is printed as a traceback, which is why it must not raise.
    """
    return f"""
import pathlib, pkgutil, sys, traceback
folder = pathlib.Path({str(site_packages)!r})
sys.path.append(str(folder))
for file in sorted(folder.glob("*.start")):
    for line in file.read_text("utf-8-sig").splitlines():
        if line.strip() and not line.strip().startswith("#"):
            try:
                pkgutil.resolve_name(line.strip())()
            except Exception:
                traceback.print_exc()
"""


def test_the_start_file_is_the_pth_files_twin(fresh: Environment) -> None:
    lines = (fresh.site_packages / f"{PLUGIN}.start").read_text("utf-8").splitlines()
    assert lines
    assert all(re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", line, re.ASCII) for line in lines)
    pth = (fresh.site_packages / f"{PLUGIN}.pth").read_text("utf-8").splitlines()
    assert len(pth) == 1
    assert pth[0].startswith("import ")


def test_python_3_15_starts_the_shim_by_the_start_file(fresh: Environment) -> None:
    start = processed_as_by_python_3_15(fresh.site_packages)
    state = report(fresh.run("-S", "-c", f"{start}\n{REPORT}", TRITON_PLUGIN=PLUGIN))
    assert (state["phase"], state["runs"], state["hooks"]) == ("armed", 1, 1)
    code = f"{start}\nprint([name for name in sys.modules if name.startswith('{PLUGIN}')])"
    assert fresh.run("-S", "-c", code).stdout == "[]\n"


@pytest.mark.parametrize("damage", BREAKAGES[:4])
def test_python_3_15_starts_with_a_broken_package(fresh: Environment, damage: Any) -> None:
    damage(fresh.site_packages)
    start = processed_as_by_python_3_15(fresh.site_packages)
    done = fresh.run("-S", "-c", f"{start}\nprint('started')", TRITON_PLUGIN=PLUGIN)
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.skipif(sys.version_info < (3, 15), reason="the first Python that reads .start files is 3.15")
def test_this_python_reads_the_start_file(fresh: Environment) -> None:
    (fresh.site_packages / f"{PLUGIN}.pth").unlink()
    assert report(fresh.run("-c", REPORT, TRITON_PLUGIN=PLUGIN))["phase"] == "armed"


# Installing and uninstalling


@pytest.mark.parametrize("editable", [False, True], ids=["wheel", "editable"])
def test_uninstalling_leaves_nothing_behind(tmp_path: Path, editable: bool) -> None:
    environment = environments.create(tmp_path / "environment")
    before = environment.files()
    environment.pip(
        "install", "--no-deps", "--no-index", str(environments.build_wheel(tmp_path, editable=editable))
    )
    assert set(STARTUP_FILES) <= environment.files()
    assert (environment.site_packages / PLUGIN / "__init__.py").is_file() is not editable
    assert report(environment.run("-c", REPORT, TRITON_PLUGIN=PLUGIN))["phase"] == "armed"
    environment.pip("uninstall", "-y", "triton-ascend-compat")
    assert environment.files() - before == set()
    done = environment.run("-c", "print('started')", TRITON_PLUGIN=PLUGIN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")


# `run`


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(
        "import json, sys\n"
        "print(json.dumps([__name__, sys.argv, sys.path[0], __file__]))\n"
        "if sys.argv[1:] == ['raise']: raise LookupError('what the program raised')\n"
        "if sys.argv[1:] == ['interrupt']: raise KeyboardInterrupt\n"
        "if sys.argv[1:2] == ['exit']:\n"
        "    sys.exit(int(sys.argv[2]) if sys.argv[2].isdigit() else sys.argv[2])\n",
        "utf-8",
    )
    return path


RUN = ("-m", PLUGIN, "run")


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help", "-m", "x", "--", "-c"], ["exit", "0"]])
def test_run_is_like_python(bare: Environment, script: Path, arguments: list[str]) -> None:
    for form, cwd in (
        ([script.name], script.parent),
        ([str(script)], None),
        (["-m", "script"], script.parent),
    ):
        plain = bare.run(*form, *arguments, cwd=cwd)
        ours = bare.run(*RUN, *form, *arguments, cwd=cwd)
        expected, got = json.loads(plain.stdout), json.loads(ours.stdout)
        # Python makes a script's __file__ absolute, runpy leaves it as given.
        assert Path(script.parent, got.pop()) == Path(script.parent, expected.pop())
        assert got == expected
        assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code"), [(["exit", "7"], 7), (["exit", "bad input"], 1), (["raise"], 1)]
)
def test_run_ends_as_the_program_ends(
    bare: Environment, script: Path, arguments: list[str], code: int
) -> None:
    plain = bare.run(str(script), *arguments)
    ours = bare.run(*RUN, str(script), *arguments)
    assert ours.returncode == plain.returncode == code
    assert ours.stderr == plain.stderr


def test_run_interrupted_ends_as_a_shell_sees_it(bare: Environment, script: Path) -> None:
    done = bare.run(*RUN, str(script), "interrupt")
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "Error: no such script: missing.py"),
        (["-m", "missing"], "Error: no such module: missing"),
        (["-m", "json.missing"], "Error: no such module: json.missing"),
        (["-m", "missing.tool"], "Error: no such module: missing.tool"),
        (["-m", "json"], "Error: a package without a __main__ module: json"),
        (["."], "Error: . is a directory without a __main__.py"),
    ],
)
def test_run_without_anything_to_run(
    bare: Environment, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = bare.run(*RUN, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{message}\n")


def test_run_tells_what_it_needs(bare: Environment) -> None:
    done = bare.run(*RUN)
    assert done.returncode == 2
    assert "SCRIPT or -m MODULE" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_a_module_whose_import_is_missing_shows_that_import(bare: Environment, tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "__init__.py").write_text("import absent_dependency\n", "utf-8")
    done = bare.run(*RUN, "-m", "tool.main", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'absent_dependency'"


FAMILY = f"""
import multiprocessing, subprocess, sys

def look():
    from triton_ascend_compat.startup import progress
    return progress.read().phase.value

def work(queue):
    queue.put(look())

if __name__ == "__main__":
    print(look())
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    worker = context.Process(target=work, args=(queue,))
    worker.start()
    print(queue.get(timeout=60))
    worker.join()
    sys.stdout.flush()
    code = "from {PLUGIN}.startup import progress; print(progress.read().phase.value)"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_run_covers_the_program_and_its_children(bare: Environment, tmp_path: Path) -> None:
    (tmp_path / "family.py").write_text(FAMILY, "utf-8")
    done = bare.run(*RUN, str(tmp_path / "family.py"), TRITON_PLUGIN="other")
    assert (done.stdout.split(), done.stderr) == (["armed"] * 3, "")


def test_run_covers_children_where_no_startup_file_is_read(wheel: Path, tmp_path: Path) -> None:
    """The package on PYTHONPATH only, as after `pip install --target`; a sitecustomize there still runs."""
    environment = environments.create(tmp_path / "empty")
    environment.link("click")
    target = tmp_path / "target"
    shutil.unpack_archive(wheel, target, "zip")
    (target / "sitecustomize.py").write_text("import sys; print('customized', file=sys.stderr)\n", "utf-8")
    (tmp_path / "family.py").write_text(FAMILY, "utf-8")
    done = environment.run(*RUN, str(tmp_path / "family.py"), PYTHONPATH=str(target))
    assert done.stdout.split() == ["armed"] * 3
    # The program's interpreter, multiprocessing's resource tracker, the worker, the last child.
    assert set(done.stderr.split()) == {"customized"}
    assert len(done.stderr.split()) >= 3


@needs_triton
def test_run_without_site(environment: Environment) -> None:
    code = f"import triton\n{REPORT}"
    (environment.folder / "scratch" / "program.py").write_text(code, "utf-8")
    done = environment.run("-S", *RUN, "scratch/program.py", PYTHONPATH=str(environment.site_packages))
    assert report(done)["active"] is True
