"""Options that are keywords of `triton.Config(...)` reach the launch."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.shim import CONFIG, LAUNCH, Shim

if TYPE_CHECKING:
    from triton_ascend_compat.plan import Verdict


def wrap_init(shim: Shim, original: Callable[..., None]) -> Callable[..., None]:
    own, swallows = generations.named_parameters(original)

    @functools.wraps(original)
    def __init__(config: Any, *args: Any, **kwargs: Any) -> None:
        extra = {key: value for key, value in kwargs.items() if key not in own}
        if not extra or CONFIG not in shim.fixes:
            return original(config, *args, **kwargs)
        if swallows:
            original(config, *args, **kwargs)
            passed_on = config.all_kwargs()
            # None is triton-ascend's "not set".
            extra = {key: value for key, value in extra.items() if key not in passed_on and value is not None}
        moved, unknown = _sort(shim, extra)
        if not swallows:
            try:
                original(config, *args, **{key: value for key, value in kwargs.items() if key not in moved})
            except TypeError as error:
                if unknown:
                    raise TypeError(f"{error}{unknown[0].hint}") from None
                raise
        if moved:
            config.kwargs = {**config.kwargs, **moved}
        if swallows and unknown:
            _leave_out(shim, unknown)
        return None

    return __init__


def _sort(shim: Shim, extra: Mapping[str, Any]) -> tuple[dict[str, Any], list[Verdict]]:
    """Which of the keywords join the launch, where it is decided what becomes of them, and the verdicts on
    those that nobody knows."""
    from triton_ascend_compat import knowledge, plan
    from triton_ascend_compat.events import Outcome

    known = knowledge.gather(shim.fixes)
    if not extra or known is None:
        return {}, []
    moved = {}
    unknown = []
    for key, value in extra.items():
        verdict = plan.decide_key(key, plan.plain_value(value), (), *known)
        if verdict.unknown:
            unknown.append(verdict)
        # An absent option that nothing leaves out of the launch would end it.
        elif verdict.outcome is not Outcome.IGNORED or LAUNCH in shim.fixes or key in known.foreign:
            moved[key] = value
    return moved, unknown


def _leave_out(shim: Shim, unknown: list[Verdict]) -> None:
    from triton_ascend_compat import reporting
    from triton_ascend_compat.events import Outcome

    reporting.tell(
        "triton.Config",
        [
            verdict._replace(
                outcome=Outcome.IGNORED,
                reason=f"nobody knows it{verdict.hint}; a kernel parameter belongs into the config's dict",
            )
            for verdict in unknown
        ],
        shim.strict,
    )
