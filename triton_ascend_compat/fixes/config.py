"""Options that are keywords of `triton.Config(...)` reach the launch."""

from __future__ import annotations

import functools
from typing import Any, Callable

from triton_ascend_compat import shim
from triton_ascend_compat.decision.plan import Outcome, Plan, Where, decide
from triton_ascend_compat.telling import tell

WHY = (
    "Config(..., opt=v) drops most options without a word in triton-ascend 3.2.0, and is a TypeError on "
    "other releases"
)
HOW = (
    "wraps Config.__init__: options join the config's dict, and so the launch; one that is absent here is "
    "left out; where Config drops an unknown one, that is said once"
)
UPSTREAM = (
    "https://github.com/triton-lang/triton-ascend/blob/ebf849866/triton_patch/python/triton_patch/runtime/"
    "autotuner.py"
)
UNTIL = "Config of every triton-ascend in use passes its keywords on"


def wrap_init(original: Callable[..., None]) -> Callable[..., None]:
    """`Config.__init__`: what it keeps of its keywords is its own; what it drops or refuses is decided."""

    @functools.wraps(original)
    def __init__(config: Any, *args: Any, **kwargs: Any) -> None:
        if not kwargs or "config" not in shim.switch.fixes:
            original(config, *args, **kwargs)
            return
        try:
            original(config, *args, **kwargs)
        except TypeError:
            extra = _not_its_own(original, type(config), kwargs)
            plan = _decide(extra)
            if plan is None or not plan.fates:
                raise
            own = {key: value for key, value in kwargs.items() if key not in extra or key in plan.kept}
            original(config, *args, **own)
        else:
            kept, passed_on = vars(config), config.all_kwargs()
            plan = _decide(
                {key: v for key, v in kwargs.items() if v not in (None, kept.get(key), passed_on.get(key))}
            )
        if plan is not None and plan.options:
            config.kwargs = {**config.kwargs, **plan.options}

    return __init__


def _not_its_own(original: Callable[..., None], config_class: type, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords that are no attribute of a config, and so no parameter of its own."""
    plain: Any = object.__new__(config_class)
    original(plain, {})
    return {key: value for key, value in kwargs.items() if key not in vars(plain)}


def _decide(extra: dict[str, Any]) -> Plan | None:
    policy = shim.switch.policy() if extra else None
    if policy is None:
        return None
    plan = decide(extra, (), Where.CONFIG, policy)
    # What joins the launch is no news: there it is where it belongs, or else told of.
    told = [fate for fate in plan.fates if fate.outcome is not Outcome.DELIVERED]
    tell.tell("triton.Config", told, policy.release)
    return plan
