"""Options in launches, autotune configs, `warmup` and `options=`: what all of these pass through is the npu
backend's `parse_options`.

A launch comes here only when its kernel is not in the in-memory cache; a hot launch costs nothing.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from triton_ascend_compat import frames, generations, shim
from triton_ascend_compat.decision.plan import Where, decide

WHY = (
    "an option that this release does not have is a KeyError in a launch, which ends a whole autotune, and "
    "vanishes without a word in options="
)
HOW = (
    "wraps the backend's parse_options: the option is left out with one warning, or arrives under its "
    "present name; an unknown name keeps Triton's error, with the nearest names added"
)
UPSTREAM = "https://github.com/triton-lang/triton/blob/v3.2.0/python/triton/runtime/jit.py"
UNTIL = "the oldest triton-ascend in use has all options that its kernels pass"


def wrap_parse_options(original: Callable[..., Any]) -> Callable[..., Any]:
    """`parse_options` of the npu backend: what belongs is handed on as it is, the rest is decided."""

    @functools.wraps(original)
    def parse_options(backend: Any, opts: Any, *args: Any, **kwargs: Any) -> Any:
        switch = shim.switch
        if "launch" not in switch.fixes or not opts or backend.target.backend != generations.NPU:
            return original(backend, opts, *args, **kwargs)
        policy = switch.policy(type(backend))
        if policy is None or opts.keys() <= policy.fields:
            return original(backend, opts, *args, **kwargs)
        fn, launch = frames.kernel_and_launch(sys._getframe(1), opts)
        where = Where.LAUNCH if launch else Where.OPTIONS
        # Of a launch, these are Triton's own to find fault with.
        parameters = (*getattr(fn, "arg_names", ()), *(generations.LAUNCH_RESERVED if launch else ()))
        plan = decide(opts, parameters, where, policy)
        settled = {fate.key for fate in plan.fates}
        if plan.fates:
            from triton_ascend_compat.telling import tell

            tell.tell(fn if fn is not None else "triton.compile(options=…)", plan.fates, policy.release)
            if launch:
                for key in settled:
                    opts.pop(key)
                opts.update(plan.options)
            else:
                opts = {**plan.kept, **plan.options}
        options = original(backend, opts, *args, **kwargs)
        for keywords in launch:  # it looks them up again
            for key in settled | policy.taken:
                keywords.pop(key, None)
        return options

    return parse_options
