"""What the shim does to the npu backend's `parse_options`, which the options of every way into the compiler
pass through: launches, `warmup`, autotune configs, `triton.compile(options=…)`, other frontends.

A launch comes here only when its kernel is not in the in-memory cache, so that a launch that is costs
nothing. The decision itself is in `plan`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.shim import FOLDING, LAUNCH, Shim

if TYPE_CHECKING:
    from triton_ascend_compat.knowledge import Knowledge
    from triton_ascend_compat.plan import Verdict


def wrap_parse_options(shim: Shim, original: Callable[..., Any]) -> Callable[..., Any]:
    accepted: frozenset[str] | None = None

    @functools.wraps(original)
    def parse_options(backend: Any, opts: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal accepted
        if not shim.fixes or not opts or backend.target.backend != generations.NPU:
            return original(backend, opts, *args, **kwargs)
        if accepted is None:
            try:
                accepted = frozenset(vars(inspect.unwrap(original)(backend, {})))
            except Exception:  # a backend that builds no options from nothing is one that we cannot ask
                return original(backend, opts, *args, **kwargs)
        strays = [key for key in opts if key not in accepted]
        settled: Collection[str] = ()
        launch: tuple[dict[str, Any], ...] = ()
        if strays:
            fn, launch = generations.option_call(sys._getframe(1), opts)
            opts, settled = _without_strays(shim, type(backend), opts, strays, fn, launch)
        options = original(backend, opts, *args, **kwargs)
        for keywords in launch:
            for key in settled:
                keywords.pop(key, None)
        if FOLDING in shim.fixes and "auto_blockify_size" in accepted:
            from triton_ascend_compat.fixes import folding

            folding.warn_if_off(type(backend), options)
        return options

    return parse_options


def _without_strays(
    shim: Shim,
    backend_class: type,
    opts: Any,
    strays: list[str],
    fn: Any,
    launch: tuple[dict[str, Any], ...],
) -> tuple[Any, Collection[str]]:
    """Decide about `strays`, the keys of `opts` that are no fields of the backend's options.

    Returns:
        The options to parse, and the names that are settled then: the launch, where this is one, is not to
        look them up any more.
    """
    parameters = fn.arg_names if fn is not None else ()
    leave = generations.LAUNCH_RESERVED if launch else ()
    strays = [key for key in strays if key not in parameters and key not in leave]
    if not strays:
        return opts, ()

    from triton_ascend_compat import knowledge, plan

    known = knowledge.gather(shim.fixes, backend_class)
    if known is None:
        return opts, ()
    # What the backend itself retires or renames, it has to see.
    its_own = [key for key in strays if key in known.installed and LAUNCH in shim.fixes]
    strays = [key for key in strays if key not in known.installed and key not in known.installed.internal]
    if not strays:
        return opts, its_own
    verdicts, arriving = plan.decide_strays(strays, opts, parameters, *known)
    verdicts = tuple(verdict for verdict in verdicts if LAUNCH in shim.fixes or _is_data(verdict, known))
    _tell(fn, verdicts, bool(launch), shim.strict)
    decided = [verdict.key for verdict in verdicts]
    if launch:
        for key in decided:
            opts.pop(key)
        opts.update(arriving)
    else:
        opts = {**{key: value for key, value in opts.items() if key not in decided}, **arriving}
    return opts, [*its_own, *decided]


def _is_data(verdict: Verdict, known: Knowledge) -> bool:
    """Whether `verdict` is that of the fixes `renames` and `foreign` rather than of `launch`."""
    return not verdict.unknown and (verdict.outcome != "ignored" or verdict.key in known.foreign)


def _tell(fn: Any, verdicts: Collection[Verdict], launching: bool, strict: bool) -> None:
    """Report `verdicts`: an unknown keyword of a launch is Triton's error, an unknown option is left out."""
    from triton_ascend_compat import reporting
    from triton_ascend_compat.decision import catalogue
    from triton_ascend_compat.events import Outcome

    unknown = [verdict for verdict in verdicts if verdict.unknown]
    if launching and unknown:
        reporting.emit(fn, unknown)
        raise KeyError(generations.unrecognised_keyword(unknown[0].key) + unknown[0].hint)
    told = []
    frontends = {} if launching else catalogue.frontend_values()
    for verdict in verdicts:
        if verdict.unknown:
            verdict = verdict._replace(outcome=Outcome.IGNORED, reason=f"nobody knows it{verdict.hint}")
        # None is triton-ascend's "not set".
        if verdict.value is None or verdict.value in frontends.get(verdict.key, ()):
            verdict = verdict._replace(quiet=True)
        told.append(verdict)
    reporting.tell(fn if fn is not None else "triton.compile(options=…)", told, strict)
