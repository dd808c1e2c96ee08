"""The post-import hook, on small modules of the test's own; on real interpreters see test_activation."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from triton_ascend_compat.startup import import_hook

NAME = "hooked_by_the_test"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    yield tmp_path
    import_hook.disarm(NAME)
    for name in [name for name in sys.modules if name.startswith(NAME)]:
        del sys.modules[name]
    assert sys.meta_path == finders


def write(folder: Path, text: str = "") -> None:
    (folder / f"{NAME}.py").write_text(text, "utf-8")
    importlib.invalidate_caches()


def test_fires_after_the_module_has_been_executed_each_time_that_it_is(folder: Path) -> None:
    write(folder, "late = 'set at the end'")
    seen: list[str] = []
    hook = import_hook.arm(NAME, lambda: seen.append(sys.modules[NAME].late))
    assert (seen, sys.meta_path[0], hook.fired) == ([], hook, False)
    module = importlib.import_module(NAME)
    assert (seen, hook.fired) == (["set at the end"], True)
    assert importlib.import_module(NAME) is module
    assert len(seen) == 1
    importlib.reload(module)
    assert (len(seen), hook.fired) == (2, True)
    del sys.modules[NAME]
    assert not hook.fired
    assert importlib.import_module(NAME) is not module
    assert (len(seen), hook.fired) == (3, True)


def test_a_reload_that_imports_others_fires_at_its_end(folder: Path) -> None:
    for name in ("too", "again"):
        (folder / f"{NAME}_{name}.py").write_text("", "utf-8")
    write(folder, f"late = False\nimport {NAME}_too, {NAME}_again\nlate = True")
    seen: list[bool] = []
    import_hook.arm(NAME, lambda: seen.append(sys.modules[NAME].late))
    module = importlib.import_module(NAME)
    del sys.modules[f"{NAME}_too"], sys.modules[f"{NAME}_again"]
    importlib.reload(module)
    assert seen == [True, True]


def test_fires_at_once_where_the_module_is_there(folder: Path) -> None:
    write(folder)
    importlib.import_module(NAME)
    seen: list[int] = []
    hook = import_hook.arm(NAME, lambda: seen.append(1))
    assert (seen, hook.fired) == ([1], True)


def test_arming_twice_is_once(folder: Path) -> None:
    write(folder)
    seen: list[int] = []

    def callback() -> None:
        seen.append(1)

    first = import_hook.arm(NAME, callback)
    assert import_hook.arm(NAME, callback) is first
    assert sys.meta_path.count(first) == 1
    importlib.import_module(NAME)
    assert import_hook.arm(NAME, callback) is first
    assert seen == [1]


def test_what_a_callback_arms_fires_behind_it(folder: Path) -> None:
    write(folder)
    seen: list[int] = []
    import_hook.arm(NAME, lambda: import_hook.arm(NAME, lambda: seen.append(1)))
    importlib.import_module(NAME)
    assert seen == [1]


@pytest.mark.parametrize("gone", [None, 0, 1, 2])
def test_several_callbacks_for_one_module_run_in_their_order(folder: Path, gone: int | None) -> None:
    write(folder)
    seen: list[int] = []
    callbacks = [lambda number=number: seen.append(number) for number in range(3)]  # type: ignore[misc]
    for callback in callbacks:
        import_hook.arm(NAME, callback)
    if gone is not None:
        import_hook.disarm(NAME, callbacks[gone])
    importlib.import_module(NAME)
    assert seen == [number for number in range(3) if number != gone]


def test_a_callback_that_raises_keeps_no_other_from_its_turn(folder: Path) -> None:
    write(folder)
    seen: list[int] = []
    import_hook.arm(NAME, lambda: 1 / 0)
    import_hook.arm(NAME, lambda: seen.append(1))
    importlib.import_module(NAME)
    assert seen == [1]


def test_disarmed_it_never_fires(folder: Path) -> None:
    write(folder)
    seen: list[int] = []
    import_hook.arm(NAME, lambda: seen.append(1))
    import_hook.disarm(NAME)
    import_hook.disarm(NAME)
    importlib.import_module(NAME)
    assert seen == []


def test_a_search_without_an_import_changes_nothing(folder: Path) -> None:
    write(folder)
    plain = importlib.util.find_spec(NAME)
    assert plain is not None
    seen: list[int] = []
    import_hook.arm(NAME, lambda: seen.append(1))
    for _ in range(2):
        found = importlib.util.find_spec(NAME)
        assert found is not None
        assert (found.name, found.origin) == (plain.name, plain.origin)
    assert (seen, NAME in sys.modules) == ([], False)
    importlib.import_module(NAME)
    assert seen == [1]


def test_the_loader_looks_as_without_the_hook(folder: Path) -> None:
    write(folder)
    plain = importlib.util.find_spec(NAME)
    assert plain is not None
    import_hook.arm(NAME, lambda: None)
    module = importlib.import_module(NAME)
    assert module.__spec__ is not None
    loader = module.__spec__.loader
    assert type(loader) is type(plain.loader)
    assert module.__loader__ is loader
    assert "exec_module" not in vars(loader)


def test_a_loader_shared_with_other_modules(folder: Path) -> None:
    write(folder)
    (folder / f"{NAME}_too.py").write_text("", "utf-8")
    loader = _Shared(folder)
    other = _Own(loader)
    sys.meta_path.insert(0, other)
    seen: list[int] = []
    import_hook.arm(NAME, lambda: seen.append(1))
    for _ in range(3):
        importlib.util.find_spec(NAME)
    importlib.import_module(f"{NAME}_too")
    assert (seen, loader.executed) == ([], [f"{NAME}_too"])
    importlib.import_module(NAME)
    assert (seen, loader.executed) == ([1], [f"{NAME}_too", NAME])
    assert "exec_module" not in vars(loader)
    sys.meta_path.remove(other)


def test_a_failed_import_leaves_it_armed(folder: Path) -> None:
    write(folder, "raise OSError('not yet')")
    seen: list[int] = []
    hook = import_hook.arm(NAME, lambda: seen.append(1))
    for _ in range(2):
        with pytest.raises(OSError, match="not yet"):
            importlib.import_module(NAME)
    assert (seen, hook.fired) == ([], False)
    write(folder, "ready = True  # and longer than the text before, so that its bytecode is not taken")
    importlib.import_module(NAME)
    assert seen == [1]


def test_an_absent_module_is_absent(folder: Path) -> None:
    hook = import_hook.arm(NAME, lambda: None)
    with pytest.raises(ModuleNotFoundError, match=NAME):
        importlib.import_module(NAME)
    write(folder)
    importlib.import_module(NAME)
    assert hook.fired


def test_what_the_callback_raises_is_logged_and_kept(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(folder)

    def fail() -> None:
        raise RuntimeError("callback is broken")

    hook = import_hook.arm(NAME, fail)
    with caplog.at_level(logging.DEBUG, "triton_ascend_compat"):
        importlib.import_module(NAME)
    assert hook.error == "RuntimeError: callback is broken"
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warnings] == ["not active: RuntimeError: callback is broken"]
    assert hook.fired
    write(folder, "# longer than the text before, so that its bytecode is not taken")
    hook.callback = lambda: None
    importlib.reload(sys.modules[NAME])
    assert hook.error == ""


def test_the_callback_may_import_the_module_and_others(folder: Path) -> None:
    (folder / f"{NAME}_too.py").write_text("", "utf-8")
    write(folder)
    seen: list[str] = []

    def callback() -> None:
        seen.extend(importlib.import_module(name).__name__ for name in (NAME, f"{NAME}_too"))

    import_hook.arm(NAME, callback)
    importlib.import_module(NAME)
    assert seen == [NAME, f"{NAME}_too"]


class _Answering(importlib.abc.MetaPathFinder):
    """A stand-in for another tool's finder: asks all finders again, as some import hooks do."""

    def __init__(self) -> None:
        self.busy = False

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != NAME or self.busy:
            return None
        self.busy = True
        try:
            return importlib.util.find_spec(fullname)
        finally:
            self.busy = False


@pytest.mark.parametrize("first", [True, False], ids=["in front of us", "behind us"])
def test_other_hooks_on_the_same_module(folder: Path, monkeypatch: pytest.MonkeyPatch, first: bool) -> None:
    write(folder)
    seen: list[int] = []
    other = _Answering()
    if not first:
        sys.meta_path.insert(0, other)
    import_hook.arm(NAME, lambda: seen.append(1))
    if first:
        sys.meta_path.insert(0, other)
    importlib.import_module(NAME)
    assert seen == [1]
    sys.meta_path.remove(other)


class _Shared(importlib.abc.Loader):
    """A stand-in for a loader that serves several modules, as zipimport's does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executed: list[str] = []

    def exec_module(self, module: ModuleType) -> None:
        self.executed.append(module.__name__)
        exec((self.folder / f"{module.__name__}.py").read_text("utf-8"), vars(module))


class _Old:
    """A stand-in for a loader of the kind that Python had before 3.4."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load_module(self, name: str) -> ModuleType:
        module = sys.modules[name] = ModuleType(name)
        exec((self.folder / f"{name}.py").read_text("utf-8"), vars(module))
        return module


class _Own(importlib.abc.MetaPathFinder):
    """A stand-in for a finder that brings the modules of this test in by itself."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self.loader) if fullname.startswith(NAME) else None


@pytest.mark.filterwarnings("ignore:.*load_module:ImportWarning")
@pytest.mark.parametrize("reach", ["a finder in front", "an old loader"])
def test_a_module_that_came_in_unseen_is_caught_at_the_next_import(folder: Path, reach: str) -> None:
    write(folder)
    (folder / f"{NAME}_next.py").write_text("", "utf-8")
    seen: list[int] = []
    in_front = reach == "a finder in front"
    other = _Own(_Shared(folder) if in_front else _Old(folder))  # type: ignore[arg-type]
    sys.meta_path.insert(0, other)
    hook = import_hook.arm(NAME, lambda: seen.append(1))
    if in_front:
        sys.meta_path[:2] = [other, hook]
    importlib.import_module(NAME)
    assert (seen, hook.fired) == ([], False)
    sys.meta_path.remove(other)
    importlib.import_module(f"{NAME}_next")
    assert seen == [1]


def test_threads_that_import_at_the_same_time(folder: Path) -> None:
    write(folder, "import time; time.sleep(0.05); done = True")
    seen: list[bool] = []
    failures: list[BaseException] = []
    import_hook.arm(NAME, lambda: seen.append(sys.modules[NAME].done))
    others = [f"{NAME}_{number}" for number in range(20)]
    for name in others:
        (folder / f"{name}.py").write_text("", "utf-8")
    importlib.invalidate_caches()
    start = threading.Barrier(5)

    def work(names: list[str]) -> None:
        start.wait()
        try:
            for name in names:
                importlib.import_module(name)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=([NAME, *others[number::4]],)) for number in range(4)]
    for thread in threads:
        thread.start()
    start.wait()
    for thread in threads:
        thread.join()
    assert (failures, seen) == ([], [True])


def test_leaving_does_not_disturb_a_walk_over_the_finders(folder: Path) -> None:
    """Another thread may be in the middle of `for finder in sys.meta_path`."""
    hook = import_hook.arm(NAME, lambda: None)
    behind = sys.meta_path[1:]
    walk = iter(sys.meta_path)
    assert next(walk) is hook
    import_hook.disarm(NAME)
    assert list(walk) == behind


def test_armed_in_the_middle_of_the_import_it_fires_after_it(folder: Path) -> None:
    """Another thread has begun the import, unseen; while that goes on, this thread imports something else."""
    write(folder, f"import sys, threading\nsys.{NAME}_reached.set()\nsys.{NAME}_go.wait(20)\ndone = True")
    for name in ("next", "last"):
        (folder / f"{NAME}_{name}.py").write_text("", "utf-8")
    reached, go = threading.Event(), threading.Event()
    vars(sys).update({f"{NAME}_reached": reached, f"{NAME}_go": go})
    thread = threading.Thread(target=importlib.import_module, args=(NAME,))
    thread.start()
    assert reached.wait(20)
    seen: list[bool] = []
    hook = import_hook.arm(NAME, lambda: seen.append(sys.modules[NAME].done))
    assert import_hook.is_importing(NAME)
    importlib.import_module(f"{NAME}_next")
    assert (seen, hook.fired) == ([], False)
    go.set()
    thread.join()
    importlib.import_module(f"{NAME}_last")
    assert (seen, hook.fired, import_hook.is_importing(NAME)) == ([True], True, False)
    for name in ("reached", "go"):
        delattr(sys, f"{NAME}_{name}")


def test_an_error_that_cannot_be_printed_is_kept_by_its_name(folder: Path) -> None:
    write(folder)

    class Unprintable(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def fail() -> None:
        raise Unprintable

    hook = import_hook.arm(NAME, fail)
    importlib.import_module(NAME)
    assert (hook.error, hook.fired) == ("Unprintable", True)


def test_a_strange_object_among_the_modules_stops_no_import(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strange:
        def __getattr__(self, name: str) -> object:
            raise OSError(name)

    (folder / f"{NAME}_next.py").write_text("", "utf-8")
    import_hook.arm(NAME, lambda: None)
    monkeypatch.setitem(sys.modules, NAME, Strange())
    importlib.import_module(f"{NAME}_next")
