"""Lets a script go on behind a launch whose kernel does not compile, where nothing depends on that launch.

No launch in offline mode computes anything, so one that failed leaves the script as one that did not: as long
as its value is not used and no code of the script, or of a library, waits for the exception. Where some does,
or where that cannot be told, the exception is raised as ever.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any, Callable

from triton_ascend_compat.errors import CompileOptionError
from triton_ascend_compat.shim import Hook

_MARK = "ascend check: of a kernel"

#: Context managers, by the last part of their name, that wait for an exception.
_EXPECTING = ("suppress", "raises", "assertRaises", "assertRaisesRegex")

#: Where threads and processes end: these catch an exception to print it.
_ENDS = ("threading", "multiprocessing.process")

_parsing = threading.Lock()  # Python 3.11's parser fails when threads use it at once


def mark(error: BaseException) -> None:
    """Note on the exception itself that it tells of a kernel that does not compile."""
    with contextlib.suppress(Exception):  # an exception that takes no attributes
        setattr(error, _MARK, True)


def is_of_a_kernel(error: BaseException | None) -> bool:
    """Whether `error` is marked, or was made of such a one: by `raise … from`, or by Triton's own code."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if getattr(error, _MARK, False) or isinstance(error, CompileOptionError):
            return True
        parts = getattr(error, "exceptions", None)  # those of an ExceptionGroup
        if isinstance(parts, tuple) and parts:
            return all(map(is_of_a_kernel, parts))
        seen.add(id(error))
        error = error.__cause__ or (error.__context__ if _raised_by_triton(error) else None)
    return False


def install(went_on: Callable[[str], None]) -> None:
    """Wrap the ways to launch; `went_on` is called with the `file:line` of each launch that was let go."""
    from triton.runtime import autotuner, jit

    depth = threading.local()

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            if getattr(depth, "inside", False):
                return original(*args, **kwargs)  # of a tuner, which may wait for exceptions
            depth.inside = True
            try:
                return original(*args, **kwargs)
            except Exception as error:
                where = is_of_a_kernel(error) and _dispensable(sys._getframe(1))
                if not where:
                    raise
                with contextlib.suppress(Exception):  # the script may have closed its stderr
                    traceback.print_exc()
                    print(f"check goes on after {where}", file=sys.stderr, flush=True)
                went_on(where)
                return None
            finally:
                depth.inside = False

        return run

    for owner in (jit.JITFunction, autotuner.Autotuner, autotuner.Heuristics):
        Hook(owner, "run", wrap).put()


def _raised_by_triton(error: BaseException) -> bool:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and _package(frames[-1]) == "triton"


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _dispensable(frame: FrameType | None) -> str | None:
    """`file:line` of the statement that launches, if it does nothing else and nothing catches what it
    raises."""
    frame = _outside(frame)
    if frame is None or not _is_a_launch(_nodes_at(frame)) or awaited(frame):
        return None
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def awaited(frame: FrameType | None) -> bool:
    """Whether some code may wait for an exception that leaves `frame` and Triton."""
    frame = _outside(frame)
    while frame is not None and frame.f_globals.get("__name__") not in _ENDS:
        if not frame.f_code.co_filename.startswith("<frozen ") and _may_catch(_nodes_at(frame)):
            return True
        frame = frame.f_back
    return False


def _outside(frame: FrameType | None) -> FrameType | None:
    """The nearest caller that is neither Triton's code nor ours, nor what both are called through."""
    while frame is not None and _package(frame) in ("triton", "triton_ascend_compat", "contextlib"):
        frame = frame.f_back
    return frame


def _is_a_launch(nodes: list[ast.AST]) -> bool:
    statement = next((node for node in reversed(nodes) if isinstance(node, ast.stmt)), None)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    return isinstance(called, ast.Subscript) or (
        isinstance(called, ast.Attribute) and called.attr in ("run", "warmup")
    )


def _may_catch(nodes: list[ast.AST]) -> bool:
    if not nodes:
        return True  # there is no source to look at
    return any(
        (bool(getattr(node, "handlers", ())) and inner in getattr(node, "body", ()))
        or (isinstance(node, (ast.With, ast.AsyncWith)) and any(map(_expects, node.items)))
        for node, inner in zip(nodes, nodes[1:])
    )


def _expects(item: ast.withitem) -> bool:
    called = getattr(item.context_expr, "func", None)
    return (getattr(called, "attr", None) or getattr(called, "id", None)) in _EXPECTING


def _nodes_at(frame: FrameType) -> list[ast.AST]:
    """The statements and expressions around the line that `frame` is at, outermost first, in its function."""
    node = _tree(
        frame.f_code.co_filename, tuple(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    )
    found: list[ast.AST] = []
    while node is not None:
        found = (
            [node]
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            else [*found, node]
        )
        spanning = [inner for inner in _children(node) if _spans(inner, frame.f_lineno)]
        node = spanning[-1] if spanning else None  # of `if x: launch()` the launch
    return found


def _children(node: ast.AST) -> Iterator[ast.AST]:
    return (child for child in ast.iter_child_nodes(node) if hasattr(child, "lineno"))


def _spans(node: Any, line: int) -> bool:
    return bool(node.lineno <= line <= node.end_lineno)


@functools.lru_cache(maxsize=64)
def _tree(file: str, lines: tuple[str, ...]) -> ast.AST | None:
    try:
        with _parsing:
            return ast.parse("".join(lines)) if lines else None
    except SyntaxError:
        return None
