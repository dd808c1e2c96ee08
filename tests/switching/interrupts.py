"""Ctrl-C, and a lack of memory, at the n-th line of the package inside a call of it, for all n.

Afterwards status() is true, enable() works, and disable() puts back what was there. The lines of the import
hook are counted in an import of a small package of the suite's own, and sampled in that of Triton.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import triton_ascend_compat as compat
from tests.switching.common import PACKAGE, Suite, check, differences, fork, picture
from triton_ascend_compat import startup
from triton_ascend_compat.startup import import_hook

ERRORS = (KeyboardInterrupt, MemoryError)
LOADED = "a_package_of_the_suite"


class Interrupter:
    """Raises an error at the n-th line of the package; counts the lines.

    Lines that run while Triton executes its own modules do not count: an import of Triton that is interrupted
    in its middle is not always whole the next time, with this package or without.
    """

    def __init__(self, error: type[BaseException], at: int) -> None:
        self.error = error
        self.at = at
        self.lines = 0

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line" and not is_in_triton(frame):
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                raise self.error
        return self.trace

    def run(self, operation: Callable[[], object]) -> None:
        """Do `operation`; the error may come out of it, or not."""
        sys.settrace(self.trace)
        try:
            operation()
        except (self.error, compat.CompatError):
            pass
        finally:
            sys.settrace(None)


def is_in_triton(frame: FrameType | None) -> bool:
    """Whether `frame` was reached from a module of Triton that is being executed."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == "<module>" and name.partition(".")[0] == "triton":
            return True
        frame = frame.f_back
    return False


def count_lines(operation: Callable[[], object]) -> int:
    """How many lines of the package `operation` runs through: counted in a forked process."""
    with tempfile.TemporaryFile("w+") as file:

        def count() -> None:
            interrupter = Interrupter(KeyboardInterrupt, -1)
            interrupter.run(operation)
            file.write(str(interrupter.lines))
            file.flush()

        said = fork(count)
        assert not said, said
        file.seek(0)
        return int(file.read())


def interrupted(
    operation: Callable[[], object], error: type[BaseException], at: int, pristine: Callable[[], list[str]]
) -> None:
    Interrupter(error, at).run(operation)
    importlib.import_module("triton")
    check("right after")
    compat.enable()
    check("enable() after that", True)
    compat.disable()
    check("disable() after that", False)
    changed = pristine()
    assert not changed, f"disable() after that: {changed[0]} is not what it was"


def points(suite: Suite, lines: int, most: int | None, quick: int) -> range:
    """The lines to interrupt at: all, or this many of them at equal distances."""
    wanted = most if suite.whole else quick
    step = 1 if wanted is None or wanted >= lines else -(-lines // wanted)
    return range(suite.random.randrange(step) + 1, lines + 1, step)


def in_an_imported_triton(suite: Suite) -> None:
    importlib.import_module("triton")
    check("at first", False)
    compat.enable(), check("on", True), compat.disable()  # what is imported only once
    before = picture()

    def strictly() -> None:
        compat.enable(strict=True, without=["folding"])

    for first, operation in (
        (compat.disable, compat.enable),
        (compat.enable, compat.enable),
        (compat.enable, strictly),
        (compat.enable, compat.disable),
        (compat.disable, compat.disable),
        (compat.enable, compat.status),
        (compat.disable, compat.status),
        (compat.enable, compat.report),
    ):
        first()
        lines = count_lines(operation)
        for error in ERRORS:
            for at in points(suite, lines, None, 12):
                what = functools.partial(interrupted, operation, error, at, lambda: differences(before))
                said = fork(what)
                told = (
                    f"{first.__name__}, {operation.__name__} meets {error.__name__} at line {at} of {lines}"
                )
                suite.count([said and f"{told}: {said}"])
        compat.disable()


def before_triton_is_imported(suite: Suite) -> None:
    """In forked processes that have yet to import Triton: switching, and the import itself."""

    def nothing() -> None:
        pass

    def import_triton() -> None:
        importlib.import_module("triton")

    for first, operation, most in (
        (nothing, compat.enable, 60),
        (nothing, compat.disable, 60),
        (startup.arm, compat.enable, 60),
        (startup.arm, compat.disable, 60),
        (startup.arm, compat.status, 60),
        (startup.arm, import_triton, 120),
    ):
        first()
        lines = count_lines(operation)
        for error in ERRORS:
            for at in points(suite, lines, most, 3):
                said = fork(functools.partial(interrupted, operation, error, at, list))
                told = (
                    f"{first.__name__}, {operation.__name__} meets {error.__name__} at line {at} of {lines}"
                )
                suite.count([said and f"before the import: {told}: {said}"])
        startup.disarm()


class Callback:
    """Two of these are armed: each has to have its turn for each import, and after the module's own end."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        assert sys.modules[LOADED].whole
        self.calls += 1


def in_the_hook(suite: Suite) -> None:
    """An import of a package whose submodule is bound where it is first imported, as Triton's are."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, LOADED)
        package.mkdir()
        (package / "__init__.py").write_text("from .part import value\nwhole = True\n")
        (package / "part.py").write_text("import colorsys\nvalue = 1\n")
        sys.path.insert(0, folder)
        sys.modules.pop("colorsys", None)
        callbacks = Callback(), Callback()

        def arm() -> None:
            for callback in callbacks:
                import_hook.arm(LOADED, callback)

        def load() -> None:
            importlib.import_module(LOADED)

        def disarm_one() -> None:
            import_hook.disarm(LOADED, callbacks[0])

        def load_again() -> None:
            importlib.reload(sys.modules[LOADED])

        def arm_and_load() -> None:
            arm()
            load()

        def load_and_arm() -> None:
            load()
            arm()

        for first, operation in ((arm, load), (arm, disarm_one), (lambda: None, arm_and_load),
                                 (lambda: None, load_and_arm), (arm_and_load, load_again)):  # fmt: skip

            def whole(error: Any, at: int, first: Any = first, operation: Any = operation) -> None:
                first()
                Interrupter(error, at).run(operation)
                arm()
                load()
                loaded = sys.modules[LOADED]
                assert (loaded.whole, loaded.part.value) == (True, 1)
                for callback, hook in zip(callbacks, import_hook.hooks):
                    assert hook.fired, f"{len(import_hook.hooks)} hooks, one has not fired"
                    assert callback.calls or type(hook.error) is error, "a callback was not called"
                import_hook.disarm(LOADED)
                assert import_hook._finder not in sys.meta_path

            def fresh(first: Any = first, operation: Any = operation) -> None:
                first()
                operation()

            lines = count_lines(fresh)
            for error in ERRORS:
                for at in points(suite, lines, None, 15):
                    said = fork(functools.partial(whole, error, at))
                    told = f"{operation.__name__} meets {error.__name__} at line {at} of {lines}"
                    suite.count([said and f"hook: {told}: {said}"])


def main() -> None:
    suite = Suite("interrupts")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    in_the_hook(suite)
    before_triton_is_imported(suite)
    in_an_imported_triton(suite)
    suite.end()


if __name__ == "__main__":
    main()
