"""What all wrappers ask: whether they act, and how."""

from __future__ import annotations

from typing import Any, Callable

from triton_ascend_compat.generations import Generation


class Shim:
    """The state that the wrappers of one process share.

    Attributes:
        generation: the shape of the Triton that is wrapped.
        fixes: the names of the fixes that act. Wrappers stay in place, inert, where others have wrapped on
            top of them.
        strict: whether an option that is absent here is an error rather than a warning.
        cover: wraps one more attribute, as the installer does: owner, name, what makes the wrapper.
    """

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.fixes: frozenset[str] = frozenset()
        self.strict = False
        self.cover: Callable[[Any, str, Callable[..., Any]], None] = lambda *_: None

    @property
    def on(self) -> bool:
        """Whether any fix acts."""
        return bool(self.fixes)
