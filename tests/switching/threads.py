"""Threads and forks: another thread imports Triton while this one switches and asks; and a process forks
while another of its threads does so, or holds a lock of the package.

Triton 3.2.0 itself deadlocks where one thread does `import triton` and another imports one of its modules;
plain `import triton` in both is safe, and is all that the other thread does here.
"""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import triton_ascend_compat as compat
from tests.switching.common import Suite, check, describe, fork, meets
from triton_ascend_compat import startup

OPERATIONS = ("enable", "disable", "status", "report")
LOCKS = (type(threading.Lock()), type(threading.RLock()))


def during_the_import(operation: str, armed: bool, delay: float) -> None:
    """Call `operation` again and again while another thread imports Triton, from `delay` seconds on."""
    sys.setswitchinterval(1e-5)
    raised: list[BaseException] = []
    if armed:
        startup.arm()

    def import_triton() -> None:
        try:
            importlib.import_module("triton")
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=import_triton)
    thread.start()
    time.sleep(delay)
    accepted, last_turn = False, False
    while not last_turn:
        last_turn = not thread.is_alive()
        try:
            getattr(compat, operation)()
            accepted = True
        except compat.CompatError:  # it may say that Triton is being imported
            accepted = False
    thread.join()
    if raised:
        raise raised[0]
    expected = {"enable": True, "disable": False}.get(operation, armed)
    check("afterwards", expected if accepted else None)
    compat.enable()
    check("enable() after that", True)
    compat.disable()
    check("disable() after that", False)


def in_a_child() -> None:
    """What has to work in a forked child, which then ends as interpreters do, with its summary."""
    compat.report()
    check("in the child")
    compat.enable()
    check("in the child, enable()", True)
    compat.disable()
    check("in the child, disable()", False)
    compat.enable()
    meets()
    assert compat.report().rows, "the child's report is empty"


def fork_and_end(limit: float = 15) -> str:
    """What is wrong with a forked child, which ends by the end of its main thread."""
    with tempfile.TemporaryFile() as told:
        pid = os.fork()
        if not pid:
            os.dup2(told.fileno(), 2)
            try:
                in_a_child()
            except BaseException as error:
                print(describe(error), file=sys.stderr, flush=True)
                os._exit(1)
            sys.exit()
        deadline, ended = time.monotonic() + limit, (0, 0)
        while not ended[0] and time.monotonic() < deadline:
            time.sleep(0.001)
            ended = os.waitpid(pid, os.WNOHANG)
        if not ended[0]:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return "the child hangs"
        told.seek(0)
        lines = told.read().decode(errors="replace").splitlines()
    if ended[1]:
        return f"the child ends with {os.waitstatus_to_exitcode(ended[1])}: {lines[-1:]}"
    return "" if any("multibuffer" in line for line in lines) else "the child's summary is missing"


def while_another_thread_calls(calls: list[Callable[[], object]], rounds: int) -> Iterator[str]:
    stop = threading.Event()

    def keep_calling() -> None:
        while not stop.is_set():
            for call in calls:
                call()

    thread = threading.Thread(target=keep_calling)
    thread.start()
    names = "/".join(getattr(call, "__name__", "?") for call in calls)
    try:
        for number in range(rounds):
            said = fork_and_end()
            yield said and f"forked while a thread calls {names}, round {number}: {said}"
            if "hangs" in said:
                return
    finally:
        stop.set()
        thread.join()


def locks() -> dict[str, Any]:
    """Every lock that a module of the package holds, itself or in an object of its own."""
    found = {}
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] != compat.__name__:
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, LOCKS):
                found[f"{module_name}.{name}"] = value
            elif type(value).__module__.partition(".")[0] == compat.__name__:
                of = {n: v for n, v in getattr(value, "__dict__", {}).items() if isinstance(v, LOCKS)}
                found.update({f"{module_name}.{name}.{n}": v for n, v in of.items()})
    return found


def while_another_thread_holds(name: str, lock: Any) -> str:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait(1)  # a package that takes its locks before it forks gets them

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    said = fork_and_end()
    release.set()
    thread.join()
    return said and f"forked while a thread holds {name}: {said}"


def forks(rounds: int) -> Iterator[str]:
    """In a process of its own: the summary is asked for, and Triton is imported."""
    importlib.import_module("triton")
    compat.enable()
    for calls in (
        [compat.report],
        [compat.status],
        [compat.enable, compat.disable],
        [compat.enable, meets, compat.report],
    ):
        compat.enable()
        yield from while_another_thread_calls(calls, rounds // 4)
    compat.enable()
    meets()
    for name, lock in locks().items():
        yield while_another_thread_holds(name, lock)


def main() -> None:
    if os.environ.get("TRITON_ASCEND_COMPAT_SUMMARY") != "1":  # it is read when the shim is switched on
        os.environ["TRITON_ASCEND_COMPAT_SUMMARY"] = "1"
        raise SystemExit(subprocess.call([sys.executable, "-m", __spec__.name, *sys.argv[1:]]))
    suite = Suite("threads and forks")
    for number in range(200 if suite.whole else 8):
        operation, armed = OPERATIONS[number % 4], bool(number // 4 % 2)
        delay = suite.random.choice((0, suite.random.random() * 0.3))
        said = fork(functools.partial(during_the_import, operation, armed, delay))
        told = f"{operation}() from {delay:.3f} s into the import, {'' if armed else 'not '}armed"
        suite.count([said and f"{told}: {said}"])
    suite.count(forks(200 if suite.whole else 12))
    suite.end()


if __name__ == "__main__":
    main()
