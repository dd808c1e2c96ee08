"""TRITON_INTERPRET=1: a launch may have option keywords, as on the compiler."""

from __future__ import annotations

import functools
from typing import Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.shim import INTERPRETER, Shim


def wrap_call(shim: Shim, original: Callable[..., Any]) -> Callable[..., Any]:
    reserved = generations.interpreter_keywords()

    @functools.wraps(original)
    def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
        if INTERPRETER in shim.fixes:
            strays = [key for key in kwargs if key not in executor.arg_names and key not in reserved]
            if strays:
                _decide(shim, executor, strays, kwargs)
                kwargs = {key: value for key, value in kwargs.items() if key not in strays}
        return original(executor, *args, **kwargs)

    return __call__


def _decide(shim: Shim, executor: Any, strays: list[str], kwargs: dict[str, Any]) -> None:
    """Report what the compiler would have reported; nothing is compiled here, so that all else is left out.

    Raises:
        TypeError: nobody knows a keyword; Python's text for that.
    """
    from triton_ascend_compat import knowledge, plan, reporting

    known = knowledge.gather(shim.fixes)
    if known is None:
        return
    verdicts, _ = plan.decide_strays(strays, kwargs, executor.arg_names, *known)
    unknown = [verdict for verdict in verdicts if verdict.unknown]
    if unknown:
        reporting.emit(executor.fn, unknown)
        raise TypeError(
            f"{executor.fn.__name__}() got an unexpected keyword argument {unknown[0].key!r}{unknown[0].hint}"
        )
    reporting.tell(executor.fn, [v for v in verdicts if v.key not in known.installed], shim.strict)
