"""Options among a kernel's constants: a source is put right when it is made, and carries its options itself.

What only a leaked key needs is imported when there is one: this module is part of `import triton`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from triton_ascend_compat import generations, shim

if TYPE_CHECKING:
    from triton_ascend_compat.decision.plan import Fate

WHY = (
    "a frontend that merges an autotune config into a kernel's constants dies with "
    "ValueError: 'auto_blockify_size' is not in list, on every release"
)
HOW = "wraps ASTSource: options leave the constants and override the caller's"
UPSTREAM = "https://github.com/triton-lang/triton-ascend/blob/8763c3161/python/triton/compiler/compiler.py"
UNTIL = "no frontend in use leaks, or Triton delivers such keys itself (then it stands down)"

NAME = "constants"


def wrap_init(original: Callable[..., None]) -> Callable[..., None]:
    """`ASTSource.__init__` that keeps leaked options out of the source's constants."""

    @functools.wraps(original)
    def __init__(source: Any, *args: Any, **kwargs: Any) -> None:
        switch = shim.switch
        if NAME in switch.fixes:
            constants = args[2] if len(args) > 2 else kwargs.get(switch.generation.constants_parameter)
            fn = args[0] if args else kwargs.get("fn")
            # Nearly every source is clean and pays for this look only: see benchmarks/.
            if constants and _has_leaked_key(constants, fn):
                return _init_leaky(switch, original, source, args, kwargs, fn, constants)
        return original(source, *args, **kwargs)

    return __init__


def _has_leaked_key(constants: Any, fn: Any) -> bool:
    """Whether there is any `str` key that is no kernel parameter."""
    parameters = getattr(fn, "arg_names", None)
    if parameters is None or not (type(constants) is dict or isinstance(constants, Mapping)):
        return False
    for key in constants:  # noqa: SIM110 - a generator would cost twice as much
        if isinstance(key, str) and key not in parameters:
            return True
    return False


@functools.cache
def _rooms() -> tuple[Any, Any, Any]:
    """What only a leaked key needs."""
    from triton_ascend_compat import frames
    from triton_ascend_compat.decision import plan
    from triton_ascend_compat.telling import tell

    return frames, plan, tell


def _init_leaky(
    switch: shim.Switch, original: Any, source: Any, args: Any, kwargs: Any, fn: Any, constants: Any
) -> None:
    policy = None if isinstance(fn, generations.ProbeKernel) and fn.plain else switch.policy()
    if policy is None:
        return original(source, *args, **kwargs)  # type: ignore[no-any-return]
    plan = _rooms()[1]
    kept, options, fates = plan.decide(constants, fn.arg_names, plan.Where.CONSTANTS, policy)
    if not fates:
        return original(source, *args, **kwargs)  # type: ignore[no-any-return]
    early = switch.generation.resolves_names_early
    signature = clean = args[1] if len(args) > 1 else kwargs.get("signature")
    if isinstance(signature, Mapping):  # frontends for Triton 3.3+ write an entry for every constant
        leaked = [fate.key for fate in fates if signature.get(fate.key) == "constexpr"]
        clean = {key: kind for key, kind in signature.items() if key not in leaked} if leaked else signature
    # A refused key is left where the code generator fails on it, so that no way to compile ignores it, not
    # even a reference to `ast_to_ttir` taken early: among the constants, or from Triton 3.3 on, whose
    # constants have no names any more, in the signature.
    refused = [fate.key for fate in fates if fate.outcome is plan.Outcome.REFUSED]
    if refused and not early:
        kept = {key: value for key, value in constants.items() if key in kept or key in refused}
    elif refused and isinstance(clean, Mapping):
        clean = {**clean, **dict.fromkeys(sorted(refused), "constexpr")}
    # Replaced where they stand: a call that is wrong in other ways fails as it would without the shim.
    args = list(args)
    for index, name, cleaned in ((1, "signature", clean), (2, switch.generation.constants_parameter, kept)):
        if index < len(args):
            args[index] = cleaned
        elif name in kwargs:
            kwargs[name] = cleaned
    original(source, *args, **kwargs)
    as_given = None if early else (signature, constants)
    source.parse_options = Delivery(source, options, fates, policy.release, as_given)
    return None


class Delivery:
    """What a source that leaked carries in place of its class's `parse_options`: that method's options, and
    those that were delivered. Every Triton generation lets what it returns override the caller's options.

    It is an attribute of the source itself, and so goes with it wherever it is compiled: with the shim
    switched off, in another process, in a subclass, after a reload.
    """

    def __init__(
        self,
        source: Any,
        options: dict[str, Any],
        fates: tuple[Fate, ...],
        release: str,
        as_given: tuple[Any, Any] | None,
    ) -> None:
        self.source, self.options, self.fates, self.release = source, options, fates, release
        #: Signature and constants as they were given, where a compile for another target needs them.
        self.as_given = as_given
        #: What npu compiles, while they stand in the source.
        self.put_aside: tuple[Any, Any] | None = None
        self.told = False

    def __call__(self) -> dict[str, Any]:
        own: dict[str, Any] = type(self.source).parse_options(self.source)
        asked = self.concern(sys._getframe(1))
        if asked is None:
            return own
        if asked:
            _rooms()[2].log_overridden(self.source.fn, self.options, asked)
        return {**own, **self.options}

    def concern(self, frame: Any) -> Mapping[str, Any] | None:
        """Tell what became of the keys, once a source, for a compile that the code of `frame` serves; returns
        the options that its caller gave, None where it is for another target than npu.

        For another target the source is what it would be without the shim: its constants come back until it
        is compiled for npu, or, where those would never have been accepted, there is Triton's error.
        """
        frames, _, tell = _rooms()
        source = self.source
        if isinstance(source.fn, generations.ProbeKernel):
            return {}
        target, asked = frames.target_and_options(frame)
        if target is not None and target.backend != generations.NPU:
            if self.as_given is None:
                generations.raise_name_error(source.fn, self.fates[0].key)
            elif self.put_aside is None:
                self.put_aside = source.signature, source.constants
                signature, source.constants = self.as_given
                if isinstance(signature, Mapping):  # else the source has made one of the text
                    source.signature = signature
            return None
        if self.put_aside is not None:
            source.signature, source.constants = self.put_aside
            self.put_aside = None
        if not self.told:
            tell.tell(source.fn, self.fates, self.release)
            self.told = True
        return asked  # type: ignore[no-any-return]


def _delivery(source: Any) -> Delivery | None:
    found = getattr(source, "__dict__", {}).get("parse_options")
    return found if isinstance(found, Delivery) else None


def wrap_ast_to_ttir(original: Callable[..., Any]) -> Callable[..., Any]:
    """`ast_to_ttir` for frontends that make TTIR without `compile`: it tells and refuses as well."""

    @functools.wraps(original)
    def ast_to_ttir(*args: Any, **kwargs: Any) -> Any:
        # The second argument is called `specialization` up to Triton 3.2 and `src` from 3.3 on.
        source = args[1] if len(args) > 1 else kwargs.get("src", kwargs.get("specialization"))
        delivery = _delivery(source)
        if delivery is not None and not delivery.told:
            delivery.concern(sys._getframe(1))
        return original(*args, **kwargs)

    return ast_to_ttir


def wrap_async_key(original: Callable[..., str]) -> Callable[..., str]:
    """The key by which Triton's asynchronous mode tells compiles apart. It is made before the source's
    options are asked for: candidates that differ in a delivered option only would become one."""

    @functools.wraps(original)
    def get_cache_key(src: Any, backend: Any, options: Any, *args: Any, **kwargs: Any) -> str:
        delivery = _delivery(src)
        if delivery is not None and _lacks(options, delivery.options):
            options = backend.parse_options({**vars(options), **delivery.options})  # as `compile` will
        return original(src, backend, options, *args, **kwargs)

    return get_cache_key


def _lacks(options: Any, delivered: Mapping[str, Any]) -> bool:
    """Whether the parsed `options` have another value somewhere; what the backend retires is in none."""
    fields = getattr(options, "__dataclass_fields__", {})
    return any(
        name in fields and fields[name].init and getattr(options, name) != value
        for name, value in delivered.items()
    )
