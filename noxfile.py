"""The environments that the shim is tried in: each Triton generation, and public frontends, as published.

    nox --list                # what there is
    nox --tags ci             # what continuous integration runs (make test-frontends)
    nox --tags matrix         # everything (make matrix)

Each session is an environment of its own, since upstream triton and triton-ascend overwrite each other:
several GB of wheels in all. What was found goes to build/matrix/, of which tests/frontends/matrix.py makes
COMPATIBILITY.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import nox

ROOT = Path(__file__).parent
RESULTS = ROOT / "build" / "matrix"
TESTS = ROOT / "tests" / "frontends"
OFFLINE = ROOT / "tests" / "offline"
STANDIN = ROOT / "tests" / "standin"

GENERATIONS = ("3.2.0", "3.3.1", "3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0")
IN_CI = ("3.2.0", "3.5.1", "3.9.0")  # the oldest, one from the middle, the newest
#: The generation beside torch 2.13.0, which names no Triton of its own in its CPU wheel.
BESIDE_TORCH = "3.7.1"
#: The newest torch that is tried; its wheel brings CUDA's libraries, and its Triton.
NEWEST_TORCH = "2.14.1"

#: Those that anything here runs on; in CI one beyond those that triton-ascend has wheels for.
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
PYTHONS_IN_CI = ("3.14",)
ASKED_FOR = ("pip", "triton-ascend", "triton", "torch", "torch_npu")

TOOLS = ("pytest>=8", "numpy")
TRITON_ASCEND = ("triton-ascend==3.2.0", "pybind11")  # it imports pybind11 and does not declare it
TORCH = ("torch==2.13.0", "pyyaml", "psutil")
NEIGHBOURS = ("triton-runner==0.3.8", "termcolor", "tritonparse==0.6.0", "orjson", "zstandard")

#: The files that depend on the shape of the backend's options.
BY_SHAPE = ("test_rules.py", "test_producers.py", "test_tuners.py", "test_launch.py")
SHAPES = ("3.2.1", "3.2.0", "late-2026")

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False  # that part is skipped, with a line that says so


def install(session: nox.Session, *packages: str) -> None:
    # triton 3.9 has no wheels for Python 3.9, triton-ascend 3.2.0 none for 3.12 and later.
    if session.python is None and not (3, 10) <= sys.version_info[:2] <= (3, 11):
        session.error("needs Python 3.10 or 3.11: make clean, then PYTHON=python3.11 make test-frontends")
    session.install("--quiet", *packages)


def uninstall(session: nox.Session, package: str) -> None:
    session.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", package)


def run_tests(session: nox.Session, line: str, part: str, *files: str, **env: str) -> None:
    """Run the tests of this folder, or `files` of it, and keep the outcomes by what they prove."""
    where = [str(TESTS / file) for file in files] or [str(TESTS)]
    session.run(
        *("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *where, *session.posargs),
        env={
            "TRITON_ASCEND_COMPAT_LINE": line,
            "TRITON_ASCEND_COMPAT_RESULTS": str(RESULTS / f"{line} {part}.json"),
            **env,
        },
    )


def upstream(session: nox.Session, line: str, version: str) -> None:
    install(session, f"triton=={version}", "setuptools", *TOOLS, str(ROOT))
    uninstall(session, "triton-npu-standin")  # from an earlier run, where the environment is used again
    run_tests(session, line, "no npu backend", "test_elsewhere.py")
    install(session, str(STANDIN))
    run_tests(session, line, SHAPES[0], TRITON_NPU_STANDIN_SHAPE=SHAPES[0])
    for shape in SHAPES[1:]:
        run_tests(session, line, shape, *BY_SHAPE, TRITON_NPU_STANDIN_SHAPE=shape)


def parts(names: Sequence[str], in_ci: Collection[str]) -> list[nox.param]:
    """One session for each name, tagged with what it is part of."""
    return [nox.param(name, id=name, tags=["ci", "matrix"][name not in in_ci :]) for name in names]


@nox.session
@nox.parametrize("version", parts(GENERATIONS, IN_CI))
def generation(session: nox.Session, version: str) -> None:
    """An upstream Triton with the stand-in backend, its options in three shapes."""
    upstream(session, f"triton {version}", version)


@nox.session(venv_backend="virtualenv")
@nox.parametrize("python", parts(PYTHONS, PYTHONS_IN_CI))
def python(session: nox.Session) -> None:
    """Another Python, with triton-ascend where PyPI has it for that one, else the newest upstream Triton."""
    line = f"Python {session.python}"
    offered = ask_pip(session, line)
    if "triton-ascend" in offered:
        session.install("--quiet", *TRITON_ASCEND, *TOOLS, str(ROOT))
        run_tests(session, line, "offline")
    else:
        upstream(session, line, offered["triton"])


def ask_pip(session: nox.Session, line: str) -> dict[str, str]:
    """The newest version of each of ASKED_FOR that pip offers to this Python, kept among the results."""
    offered = {}
    for name in ASKED_FOR:
        text = session.run(
            *("python", "-m", "pip", "--disable-pip-version-check", "index", "versions", name),
            silent=True,
            success_codes=[0, 1],
        )
        found = re.search(r"^\S+ \((\S+)\)$", str(text), re.MULTILINE)
        if found:
            offered[name] = found[1]
    if "pip" not in offered:
        session.error("pip reaches no index")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{line} pip.json").write_text(json.dumps({"line": line, "offered": offered}))
    return offered


@nox.session(tags=["ci", "matrix"])
def triton_ascend(session: nox.Session) -> None:
    """triton-ascend 3.2.0 with its own backend: offline, to HIVM, computing; torch on the CPU."""
    install(session, *TORCH, *TOOLS, "pytest-xdist", "hypothesis", "PyYAML")
    uninstall(session, "triton")  # some torch wheels bring it
    install(session, *TRITON_ASCEND, f"{ROOT}[hivm]")
    run_tests(session, "triton-ascend 3.2.0", "offline")
    parts = [str(folder) for folder in (OFFLINE, ROOT / "tests" / "checking") if folder.is_dir()]
    session.run(
        *("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", *parts),
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )


@nox.session(tags=["ci", "matrix"])
def inductor(session: nox.Session) -> None:
    """torch Inductor and neighbours from PyPI on an upstream Triton with the stand-in backend."""
    install(session, *TORCH, *TOOLS)
    install(session, f"triton=={BESIDE_TORCH}", *NEIGHBOURS, str(ROOT), str(STANDIN))
    run_tests(session, f"torch 2.13.0, triton {BESIDE_TORCH}", "3.2.1", TRITON_NPU_STANDIN_SHAPE="3.2.1")


@nox.session(tags=["matrix"])
def newest_inductor(session: nox.Session) -> None:
    """The newest torch Inductor with the Triton that it brings, and the change to it in patches/upstream."""
    install(session, f"torch=={NEWEST_TORCH}", *TORCH[1:], *TOOLS, "expecttest", str(ROOT), str(STANDIN))
    # triton-runner knows no Triton 3.8. Inductor first: it pickles a kernel that was not launched yet.
    files = "test_inductor.py", "test_torch_processes.py", *BY_SHAPE
    run_tests(session, f"torch {NEWEST_TORCH}", "3.2.1", *files, TRITON_NPU_STANDIN_SHAPE="3.2.1")
    session.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/patching/test_upstream.py")


@nox.session(tags=["ci", "matrix"])
def torch_npu(session: nox.Session) -> None:
    """torch_npu and torch Inductor on triton-ascend 3.2.0, on a machine without CANN."""
    install(session, *TORCH, *TOOLS, "torch_npu==2.13.0", "pyelftools")
    uninstall(session, "triton")  # some torch wheels bring it
    install(session, *TRITON_ASCEND, str(ROOT))
    stubs = Path(session.create_tmp()) / "stand-in-cann"
    session.run("python", str(TESTS / "stub_cann.py"), str(stubs))
    run_tests(
        session,
        "torch 2.13.0, torch_npu 2.13.0, triton-ascend 3.2.0",
        "offline",
        LD_LIBRARY_PATH=str(stubs),
    )
