"""What a fix is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

from triton_ascend_compat.shim import Shim

#: An attribute to wrap: its owner, its name, and what makes the wrapper of what stands there.
Wrapping = tuple[Any, str, Callable[[Callable[..., Any]], Callable[..., Any]]]


class Fix:
    """One thing that the shim puts right, behind the one installer; it can be switched off by its name.

    Attributes:
        name: by which it is switched off.
        why: what goes wrong without it, on which releases.
        how: what it does about that.
        upstream: where the cause stands.
        until: when it can go.
        wrappings: what it wraps, asked when it is switched on.
        awaits: a module that Triton may import only when it needs it; empty where there is none.
        late_wrappings: what it wraps once that module has been imported.
        unneeded: why it is not needed on this Triton; None where it is.
    """

    def __init__(
        self,
        name: str,
        *,
        why: str,
        how: str,
        upstream: str,
        until: str,
        wrappings: Callable[[Shim], Iterable[Wrapping]],
        awaits: str = "",
        late_wrappings: Callable[[Shim], Iterable[Wrapping]] = lambda _: (),
        unneeded: Callable[[Shim], str | None] = lambda _: None,
    ) -> None:
        self.name = name
        self.why = why
        self.how = how
        self.upstream = upstream
        self.until = until
        self.wrappings = wrappings
        self.late_wrappings = late_wrappings
        self.awaits = awaits
        self.unneeded = unneeded


def without_npu_backend(_: Shim) -> str | None:
    """Why a fix of the npu backend is not needed where there is none."""
    from triton_ascend_compat import generations

    return "no backend for target npu is installed" if generations.npu_backend_class() is None else None
