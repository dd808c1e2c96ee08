"""TRITON_INTERPRET=1: a launch may have option keywords, as on the compiler."""

from __future__ import annotations

import functools
from typing import Any, Callable

from triton_ascend_compat import generations, shim
from triton_ascend_compat.decision.plan import Where, decide
from triton_ascend_compat.telling import tell

WHY = "under TRITON_INTERPRET=1 every option but six is a TypeError: unexpected keyword argument"
HOW = (
    "wraps GridExecutor.__call__ as soon as the interpreter is imported: options stay away from the kernel's "
    "function"
)
UPSTREAM = "https://github.com/triton-lang/triton/blob/v3.2.0/python/triton/runtime/interpreter.py"
UNTIL = "Triton's interpreter ignores the options that its compiler accepts"


def wrap_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """`GridExecutor.__call__`, a launch under the interpreter: its options are decided as on the compiler."""
    reserved = generations.interpreter_keywords()

    @functools.wraps(original)
    def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
        switch = shim.switch
        if "interpreter" in switch.fixes and not kwargs.keys() <= {*executor.arg_names, *reserved}:
            policy = switch.policy()
            if policy is not None:
                plan = decide(kwargs, (*executor.arg_names, *reserved), Where.INTERPRETER, policy)
                tell.tell(executor.fn, plan.fates, policy.release)
                kwargs = plan.kept
        return original(executor, *args, **kwargs)

    return __call__
