"""Whether an assertion is about what a launch should have computed.

It is if the statement that failed, or the condition under which it raises an error of its own, uses an
array that was passed to a launch, something that the function made of one, or what a function returned that
launched. Attributes that no kernel changes do not count.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import sysconfig
import unittest
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

#: What is known of an array, or of a compiled kernel, without reading what a launch computes.
_NOT_READ = {
    *("shape", "dtype", "device", "size", "ndim", "numel", "nelement", "stride", "dim", "layout"),
    *("itemsize", "element_size", "nbytes", "is_contiguous", "data_ptr", "requires_grad", "metadata", "asm"),
    *("flags", "strides", "is_cuda", "is_cpu", "is_floating_point", "storage_offset", "untyped_storage"),
}
_NOT_READING = {"isinstance", "issubclass", "len", "type", "id", "hasattr", "callable"}

#: What the assertions of torch and NumPy say of arrays that differ in what no launch computes.
_NO_VALUES = re.compile(r"The values for attribute '|\(shapes .* mismatch\)|\(dtypes .* mismatch\)")

#: How many pointers are looked at in an array of such.
_MOST_ADDRESSES = 1000

#: Of these types is most of what a launch is given, and no array.
_PLAIN = {int, float, bool, str, tuple, type(None), FunctionType}

_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class Launched:
    """The arrays that launches were given, and the functions that launched."""

    def __init__(self) -> None:
        self._arrays: dict[int, weakref.ref[Any]] = {}
        self._codes: dict[CodeType, int] = {}  # and the line of the first launch

    def add(self, arguments: Iterable[Any], frame: FrameType | None) -> None:
        """Take note of a launch with these arguments by the function of `frame` and its callers."""
        for argument in arguments:
            if type(argument) in _PLAIN:
                continue
            known = self._arrays.get(id(argument))
            if (known is None or known() is not argument) and _span(argument) is not None:
                # A view may end with the call: what it shows (torch's `_base`, NumPy's `base`) does not.
                for array in (argument, getattr(argument, "_base", getattr(argument, "base", None))):
                    if _span(array) is not None:
                        with contextlib.suppress(TypeError):  # of NumPy's scalars
                            self._arrays[id(array)] = weakref.ref(array)
        while frame is not None and frame.f_code not in self._codes:
            self._codes[frame.f_code] = frame.f_lineno
            frame = frame.f_back

    def compared_by(self, error: BaseException, asserts: bool) -> bool:
        """Whether `error` comes from a statement that is about what launches should have computed; `asserts`:
        whether it is the error of an assertion, and not one that only a `raise` may make one of."""
        if _NO_VALUES.search(str(error)):
            return False
        for frame, line in reversed(list(_own_frames(error.__traceback__))):
            function = _function(frame)
            if not asserts and not _fails_by_hand(_statements(function, line)[-1:]):
                return False
            launched_at = self._codes.get(frame.f_code, 0)
            names = _names_behind(function, line, launched_at)
            anew = names & _bound_anew(function, launched_at)
            if any(_is_array(frame.f_locals.get(name)) for name in anew):
                return True
            if any(self._is_result(name, frame) for name in names):
                return True
            if _bare(names).isdisjoint(frame.f_code.co_varnames[: frame.f_code.co_argcount]):
                return False
        return False

    def _is_result(self, name: str, frame: FrameType) -> bool:
        name, _, attribute = name.partition(".")
        value = frame.f_locals.get(name, frame.f_globals.get(name))
        value = getattr(value, "__dict__", {}).get(attribute, value)
        if isinstance(value, FunctionType):
            return value.__code__ in self._codes
        return any(self._is_launched(part) for part in _parts(value))

    def _is_launched(self, value: Any) -> bool:
        span = _span(value)
        if span is None:
            return False
        arrays = [array() for array in self._arrays.values()]
        others = [other for other in map(_span, arrays) if other is not None]
        others += [(address, address + 1) for array in arrays for address in _addresses(array)]
        return any(other[0] < span[1] and span[0] < other[1] for other in others)


def _span(value: Any) -> tuple[int, int] | None:
    """First and last address of an array's memory; None for what is no array."""
    try:
        if hasattr(value, "untyped_storage"):
            storage = value.untyped_storage()
            start, size = storage.data_ptr(), storage.nbytes()
        else:
            start, size = value.__array_interface__["data"][0], value.nbytes
    except Exception:  # whatever objects a test has: they are no arrays
        return None
    return (start, start + size) if start else (id(value), id(value) + 1)


def _addresses(array: Any) -> list[int]:
    """What a small array of 64-bit integers holds: addresses, where a kernel loads pointers from it."""
    if str(getattr(array, "dtype", None)).removeprefix("torch.") not in ("int64", "uint64"):
        return []
    try:
        found: list[int] = array.reshape(-1)[:_MOST_ADDRESSES].tolist()
    except Exception:  # a meta tensor, which has no values
        return []
    return found


def _is_array(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or _span(value) is not None


def _parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, Mapping):
        yield from value.values()
    elif hasattr(value, "__dict__") and not isinstance(value, (type, ModuleType, unittest.TestCase)):
        yield from vars(value).values()


def _own_frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """The functions of an error's traceback that are no library's, and the lines where they were."""
    while traceback is not None:
        frame = traceback.tb_frame
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            yield frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _function(frame: FrameType) -> ast.AST:
    module = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == frame.f_code.co_firstlineno and node.name == frame.f_code.co_name:
                return node
    return module


def _names_behind(function: ast.AST, line: int, launched_at: int) -> set[str]:
    """The names that the statement at `line` of a function uses, and those that these were made of, behind
    its first launch at the line `launched_at`."""
    here = _statements(function, line)
    failed = [node for node in here if isinstance(node, ast.Assert)]  # of several in one line, the assertion
    around = [getattr(node, "test", None) for node in here if hasattr(node, "body")]
    last = here[-1:] if not _fails_by_hand(here[-1:]) else []
    names = _names_in([*(map(_asserted, failed) if failed else map(_head, last)), *around])
    makers = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For)
    made = [node for node in ast.walk(function) if isinstance(node, makers)]
    made = [node for node in made if not _is_past(node, function, line, launched_at)]
    bound = [(_targets(target), _names_in([source])) for node in made for target, source in _bindings(node)]
    while True:
        more = set().union(*(read for targets, read in bound if targets & _bare(names))) - names
        if not more:
            return names
        names |= more


def _bound_anew(function: ast.AST, launched_at: int) -> set[str]:
    """Names that the launch was given and that were bound anew since, of themselves: `out = out.cpu()`."""
    given = _names_in(_statements(function, launched_at)[-1:])
    since = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.lineno > launched_at > 0]
    return {name for node in since for name in _targets(node) & given & _bare(_names_in([node.value]))}


def _statements(function: ast.AST, line: int) -> list[ast.stmt]:
    """Those at a line, and around it."""
    return [node for node in ast.walk(function) if isinstance(node, ast.stmt) and _spans(node, line)]


def _bindings(node: Any) -> list[tuple[ast.AST, ast.AST]]:
    """Target and source of each binding of a statement: of `a, b = c, d` there are two."""
    source = node.iter if isinstance(node, ast.For) else node.value
    targets = getattr(node, "targets", None) or [node.target]
    if isinstance(node, ast.Assign) and len(targets) == 1:
        left, right = getattr(targets[0], "elts", [targets[0]]), getattr(source, "elts", [])
        if len(left) == len(right) and not any(isinstance(each, ast.Starred) for each in left + right):
            return list(zip(left, right))
    return [(target, source) for target in targets]


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _fails_by_hand(statements: list[ast.stmt]) -> bool:
    """Whether it is a `raise`, or a call of `pytest.fail` or a test case's: a condition says what failed."""
    calls = [getattr(getattr(node, "value", None), "func", None) for node in statements]
    return any(isinstance(node, ast.Raise) for node in statements) or "fail" in map(_name, calls)


def _name(node: ast.AST | None) -> object:
    return getattr(node, "attr", getattr(node, "id", None))


def _head(node: Any) -> ast.AST:
    """What a statement does itself, without the block below it."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return ast.List([item.context_expr for item in node.items])
    head: ast.AST = getattr(node, "test", getattr(node, "iter", node))
    return ast.Pass() if head is node and hasattr(node, "body") else head


def _asserted(node: ast.Assert) -> ast.AST:
    return node if isinstance(node.test, ast.Constant) else node.test  # without the message


def _is_past(node: Any, function: Any, line: int, launched_at: int) -> bool:
    """Whether what a name was made of counts no more: it was so before the launch, or the name was bound anew
    since. It may count where the statement stands in a block, or makes a function."""
    if node not in function.body or any(isinstance(each, ast.Lambda) for each in ast.walk(node)):
        return False
    since = [each for each in function.body if node.lineno < each.lineno < line]
    plain = [each for each in since if isinstance(each, ast.Assign)]
    anew = [_targets(each) for each in plain if not _targets(node) & _bare(_names_in([each.value]))]
    return node.end_lineno < launched_at or any(_targets(node) <= targets for targets in anew)


def _targets(node: Any) -> set[str]:
    """The names that a statement, or a target, binds."""
    targets = getattr(node, "targets", [getattr(node, "target", node)])
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _names_in(nodes: Iterable[ast.AST | None]) -> set[str]:
    """The names that are read, `name.attribute` where an attribute is, but for what is known of an array
    without reading it."""
    names = set()
    for node in nodes:
        if node is None or _reads_nothing(node):
            continue
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
        else:
            names |= _names_in(ast.iter_child_nodes(node))
    return names


def _reads_nothing(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return all(isinstance(operator, (ast.Is, ast.IsNot)) for operator in node.ops)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _NOT_READING
    return isinstance(node, ast.Attribute) and node.attr in _NOT_READ


def _bare(names: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}
