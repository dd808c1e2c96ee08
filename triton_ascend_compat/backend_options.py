"""What the shim does to the npu backend's `parse_options`, which the options of every way into the compiler
pass through: launches, `warmup`, autotune configs, `triton.compile(options=…)`, other frontends.

A launch comes here only when its kernel is not in the in-memory cache, so that a launch that is costs
nothing. The decision itself is in `plan`.
"""

from __future__ import annotations

import functools
import sys
from types import FrameType
from typing import Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.shim import Shim

#: The names of the fixes that act here.
LAUNCH, RENAMES, FOREIGN, FOLDING = "launch", "renames", "foreign", "folding"


def wrappings(shim: Shim) -> list[tuple[Any, str, Callable[..., Any]]]:
    """The wrapper on `parse_options` of the installed npu backend; none where there is no such backend."""
    backend_class = generations.npu_backend_class()
    if backend_class is None:
        return []
    return [(backend_class, "parse_options", functools.partial(_wrap_parse_options, shim))]


def _wrap_parse_options(shim: Shim, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def parse_options(backend: Any, opts: Any, *args: Any, **kwargs: Any) -> Any:
        options = original(backend, opts, *args, **kwargs)
        if not shim.fixes or not opts or backend.target.backend != generations.NPU:
            return options
        accepted = getattr(options, "__dict__", opts)
        for key in opts:
            if key not in accepted:
                parse = functools.partial(original, backend)
                options = _without_strays(shim, parse, type(backend), opts, options, sys._getframe(1))
                break
        if FOLDING in shim.fixes and "auto_blockify_size" in accepted:
            from triton_ascend_compat.fixes import folding

            folding.warn_if_off(type(backend), options)
        return options

    return parse_options


def _without_strays(
    shim: Shim,
    parse: Callable[[Any], Any],
    backend_class: type,
    opts: Any,
    options: Any,
    frame: FrameType | None,
) -> Any:
    """Decide about the keys of `opts` that are not in `options`, what the backend made of it; returns
    `options`, made anew where something arrives under another name."""
    fn, launch = generations.option_call(frame, opts)
    parameters = fn.arg_names if fn is not None else ()
    strays = [
        key
        for key in opts
        if key not in options.__dict__
        and key not in parameters
        and not (launch and key in generations.LAUNCH_RESERVED)
    ]
    if not strays:
        return options

    from triton_ascend_compat import knowledge, plan

    known = knowledge.gather(shim.fixes, backend_class)
    if known is None:
        return options
    # What the backend itself retires or renames is gone from `options`; a launch would not recognise it.
    settled = [key for key in strays if key in known.installed]
    strays = [key for key in strays if key not in settled and key not in known.installed.internal]
    if strays:
        verdicts, arriving = plan.decide_strays(strays, opts, parameters, *known)
        verdicts = tuple(v for v in verdicts if LAUNCH in shim.fixes or _is_told_by_data(v, known.foreign))
        _tell(fn, verdicts, bool(launch), shim.strict)
        settled += [verdict.key for verdict in verdicts]
        if arriving:
            kept = {key: value for key, value in opts.items() if key not in settled}
            options = parse({**kept, **arriving})
    if LAUNCH in shim.fixes or strays:
        for keywords in launch:
            for key in settled:
                keywords.pop(key, None)
    return options


def _is_told_by_data(verdict: Any, foreign: Any) -> bool:
    """Whether `verdict` is one of the fixes `renames` and `foreign`, rather than of `launch`."""
    return not verdict.unknown and (verdict.outcome != "ignored" or verdict.key in foreign)


def _tell(fn: Any, verdicts: Any, launching: bool, strict: bool) -> None:
    """Report `verdicts`; an unknown keyword of a launch is Triton's error, an unknown option is left out."""
    import dataclasses

    from triton_ascend_compat import reporting
    from triton_ascend_compat.events import Outcome

    unknown = [verdict for verdict in verdicts if verdict.unknown]
    if launching and unknown:
        reporting.emit(fn, unknown)
        first = unknown[0]
        raise KeyError(generations.unrecognised_keyword(first.key) + first.hint)
    told = [
        dataclasses.replace(v, outcome=Outcome.IGNORED, reason=f"nobody knows it{v.hint}") if v.unknown else v
        for v in verdicts
    ]
    reporting.tell("a call of triton.compile" if fn is None else fn, told, strict)
