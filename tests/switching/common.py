"""What the suites in this folder share: what a leaked option meets, forked processes, counts.

Each suite is a process of its own, `python -m tests.switching.NAME [--whole]`, on the real triton-ascend. It
prints what falls and how many there were, and exits with 1 if any falls.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import triton_ascend_compat as compat

PACKAGE = str(Path(compat.__file__).parent) + os.sep
OPTION, VALUE = "multibuffer", False


class Kernel:
    """Stands in for a JITFunction: a source reads nothing else of it before it is compiled."""

    __name__ = "kernel"
    arg_names = ("x",)
    cache_key = "kernel"


def source_class() -> Any:
    """`ASTSource` of the Triton that is live."""
    return sys.modules["triton.compiler.compiler"].ASTSource


def meets() -> bool:
    """Whether a leaked option is delivered in the Triton that is live; if not, Triton's own error awaits it.

    Raises:
        AssertionError: neither; the option is lost, or in both places.
    """
    source = source_class()(Kernel(), {"x": "*fp32"}, {OPTION: VALUE})
    found = OPTION in source.constants, source.parse_options().get(OPTION)
    assert found in ((False, VALUE), (True, None)), f"stays in constants, and arrives as: {found}"
    return found == (False, VALUE)


def check(told: str, expected: bool | None = None) -> None:
    """Assert that status() tells what a leaked option meets; and that this is `expected`, if it is given."""
    active = compat.status().active
    if "triton" not in sys.modules:
        assert not active, f"{told}: active is {active}, and Triton is not imported"
        return
    met = meets()
    assert active == met, f"{told}: active is {active}, delivered is {met} ({compat.status().reason})"
    assert expected in (None, met), f"{told}: delivered is {met} ({compat.status().reason})"


def picture() -> dict[tuple[str, str], int]:
    """Every attribute of Triton's modules and classes that may have been replaced."""
    owners: dict[str, Any] = {n: m for n, m in list(sys.modules.items()) if n.partition(".")[0] == "triton"}
    for module in list(owners.values()):
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__.partition(".")[0] == "triton":
                owners[f"{value.__module__}.{value.__qualname__}"] = value
    for backend in sys.modules["triton.backends"].backends.values():
        owners[f"the backend {backend.compiler.__qualname__}"] = backend.compiler
    return {
        (of, name): id(value) for of, owner in owners.items() for name, value in list(vars(owner).items())
    }


def differences(before: dict[tuple[str, str], int]) -> list[str]:
    """The attributes that are not what they were in a picture; one that came in since is no difference."""
    now = picture()
    return [".".join(where) for where, value in before.items() if now.get(where, value) != value]


def fork(function: Callable[[], object], limit: int = 60) -> str:
    """Call `function` in a forked process; what is wrong: what it raised, or that it dies, or hangs for
    `limit` seconds. It ends as a process does that nothing is to follow: without Python's own end."""
    with tempfile.TemporaryFile() as file:
        pid = os.fork()
        if not pid:
            signal.alarm(limit)  # ends it, also where it waits for a lock
            try:
                function()
            except BaseException as error:
                file.write(describe(error).encode())
                file.flush()
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        file.seek(0)
        said = file.read().decode(errors="replace")
    return said or ("" if not code else "hangs" if code == -signal.SIGALRM else f"dies: {code}")


def describe(error: BaseException) -> str:
    """One line: an assertion's own words, of another exception where it was raised, too."""
    text = " ".join(str(error).split())
    if isinstance(error, AssertionError) and text:
        return text
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text} ({Path(where.filename).name}:{where.lineno})"


class Suite:
    """Counts what was tried, and tells of what fell."""

    def __init__(self, what: str) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--whole", action="store_true", help="All of it, not the quick part.")
        parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="Of what is sampled.")
        arguments = parser.parse_args()
        self.what = what
        self.whole: bool = arguments.whole
        self.seed: int = arguments.seed
        self.random = random.Random(self.seed)
        self.tried = 0
        self.fell: list[str] = []
        self.start = time.monotonic()
        logging.disable()
        scratch = tempfile.mkdtemp(prefix="switching-")
        for name in ("TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_HOME"):
            os.environ.setdefault(name, scratch)

    def count(self, said: Iterable[str]) -> None:
        """One was tried for each of these; those that are not empty fell."""
        for what in said:
            self.tried += 1
            if what:
                self.fell.append(what)

    def end(self) -> NoReturn:
        """Print the first that fell, and the counts."""
        for what in self.fell[:20]:
            print(what)
        part = "whole" if self.whole else "quick part"
        print(
            f"{self.what}: {self.tried - len(self.fell)} of {self.tried} hold "
            f"({part}, seed {self.seed}, {time.monotonic() - self.start:.0f} s)",
            flush=True,
        )
        os._exit(bool(self.fell))
