"""All orders of: import Triton, enable, disable, another patcher wraps or restores, reload.

A tree of forked processes: each does one more step than the one that it was forked from, so that every
beginning of an order is lived through once, and is itself an order whose end is checked. Longer orders, and
those with a second copy of Triton in the process, are sampled.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import triton_ascend_compat as compat
from tests.switching.common import Suite, check, describe, fork, meets, source_class
from triton_ascend_compat import startup

METHODS = ("__init__", "parse_options")


def by_functools(original: Any, calls: list[str]) -> Any:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        calls.append(original.__name__)
        return original(*args, **kwargs)

    return wrapper


def by_a_bare_closure(original: Any, calls: list[str]) -> Any:
    name = original.__name__

    def theirs(source: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return original(source, *args, **kwargs)

    theirs.__name__ = name  # for the count; nothing else of the original shows
    return theirs


class ByAProxy:
    """Like wrapt's FunctionWrapper: an object that looks like what it wraps, and binds as a method does."""

    def __init__(self, original: Any, calls: list[str]) -> None:
        self.__wrapped__ = original
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __get__(self, instance: Any, owner: Any) -> Any:
        bound = self.__wrapped__.__get__(instance, owner)
        return ByAProxy(bound, self._calls) if instance is not None else self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._calls.append(self.__wrapped__.__name__)
        return self.__wrapped__(*args, **kwargs)


PATCHERS: dict[str, Callable[[Any, list[str]], Any]] = {
    "functools": by_functools,
    "closure": by_a_bare_closure,
    "proxy": ByAProxy,
}


class World:
    """What was done so far in this process, and so what is to be seen in it.

    The other patcher wraps the methods of ASTSource and puts back what it found, last in, first out. A reload
    makes another class: the patcher's wrappers are gone with the old one.
    """

    def __init__(self, patcher: str, *, armed: bool = False, copies: bool = False) -> None:
        self.told = f"{patcher}{', armed' if armed else ''}"
        self.wrap = PATCHERS[patcher]
        self.armed = armed
        self.copies = copies
        self.switched = armed
        self.calls: list[str] = []
        self.own: dict[str, Any] = {}
        self.patched: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.done: list[str] = []

    def steps(self) -> Iterator[str]:
        """What can be done next."""
        yield from ("enable", "disable")
        if "triton" not in sys.modules:
            yield "import"
            return
        yield "reload"
        if self.copies:
            yield "another copy"
        if len(self.patched) < 2:
            yield "wrap"
        if self.patched:
            yield "restore"

    def do(self, step: str) -> None:
        """Do it, and assert that all is as it has to be."""
        self.done.append(step)
        if self.armed and len(self.done) == 1:
            startup.arm()  # as if TRITON_PLUGIN were set
        try:
            getattr(self, f"do_{step.replace(' ', '_')}")()
            check("at the end", self.switched if step in ("enable", "disable", "import") else None)
            if "triton" in sys.modules:
                self._check_the_others(step)
        except Exception as error:
            raise AssertionError(f"{self.told}: {', '.join(self.done)}: {describe(error)}") from error

    def do_enable(self) -> None:
        self.switched = True
        compat.enable()
        self._note_own()

    def do_disable(self) -> None:
        self.switched = False
        compat.disable()

    def do_import(self) -> None:
        importlib.import_module("triton")
        self._note_own()

    def do_reload(self) -> None:
        importlib.reload(sys.modules["triton.compiler.compiler"])
        self._forget_the_old()

    def do_another_copy(self) -> None:
        for name in [
            name for name in sys.modules if name.partition(".")[0] == "triton" and "._C" not in name
        ]:
            del sys.modules[name]  # but for the compiled library, which a process can load only once
        importlib.import_module("triton")
        self._forget_the_old()

    def _forget_the_old(self) -> None:
        self.patched.clear()
        self.own.clear()
        self._note_own()

    def do_wrap(self) -> None:
        owner = source_class()
        found = {name: vars(owner)[name] for name in METHODS}
        theirs = {name: self.wrap(found[name], self.calls) for name in METHODS}
        for name, value in theirs.items():
            setattr(owner, name, value)
        self.patched.append((found, theirs))

    def do_restore(self) -> None:
        found, _ = self.patched.pop()
        for name, value in found.items():
            setattr(source_class(), name, value)

    def _note_own(self) -> None:
        """Triton's own methods: functions of its own file."""
        if "triton" not in sys.modules or self.own:
            return
        for name in METHODS:
            self.own[name] = inspect.unwrap(vars(source_class())[name])
            assert self.own[name].__module__ == "triton.compiler.compiler"

    def _check_the_others(self, step: str) -> None:
        self.calls.clear()
        meets()
        owner = source_class()
        for name in METHODS:
            # Whoever restored blindly may have taken the other's earlier wrapper off itself, but no more.
            assert not self.patched or name in self.calls, f"the other's wrapper of {name} is gone"
            if step == "disable":
                left = self.patched[-1][1][name] if self.patched else self.own[name]
                assert vars(owner)[name] is left, f"after disable {name} is not as the other left it"


def explored(world: World, length: int) -> list[str]:
    """What is wrong with each order of at most this many steps; empty where nothing is."""
    with tempfile.TemporaryFile() as results:
        explore(world, length, results.fileno())
        results.seek(0)
        return results.read().decode().splitlines()


def explore(world: World, length: int, results: int) -> None:
    """Do each next step in a forked process, and go on from there."""
    for step in world.steps() if len(world.done) < length else ():
        pid = os.fork()
        if pid:
            _, status = os.waitpid(pid, 0)
            if status:
                os.write(results, f"{', '.join((*world.done, step))}: hangs or dies ({status})\n".encode())
            continue
        said = ""
        signal.alarm(60)
        try:
            world.do(step)
        except BaseException as error:
            said = describe(error)
        signal.alarm(0)
        os.write(results, f"{said}\n".encode())
        if not said:  # what comes after a fault says nothing new
            explore(world, length, results)
        os._exit(0)


def sample(world: World, length: int, choose: Callable[[list[str]], str]) -> str:
    """What is wrong with one order, of steps that `choose` chooses."""

    def follow() -> None:
        for _ in range(length):
            world.do(choose(list(world.steps())))

    return fork(follow)


def main() -> None:
    suite = Suite("orders")
    for world in (*map(World, PATCHERS), World("functools", armed=True)):
        suite.count(explored(world, 6 if suite.whole else 3))
    for number in range(200 if suite.whole else 8):
        patcher = suite.random.choice(tuple(PATCHERS))
        world = World(patcher, armed=bool(number % 2), copies=True)
        suite.count([sample(world, 10, suite.random.choice)])
    suite.end()


if __name__ == "__main__":
    main()
