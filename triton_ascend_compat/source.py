"""What the shim does to an `ASTSource`: it takes leaked options out when a source is made and hands them
over when its options are asked for. The decision itself is in `plan`, what a source carries in `record`.

What only a leaked key needs is imported when there is one: this module is part of `import triton`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from triton_ascend_compat import generations
from triton_ascend_compat.shim import CONSTANTS, Shim

if TYPE_CHECKING:
    from triton_ascend_compat.record import Record

#: The attribute of a source that holds its record.
RECORD = "_triton_ascend_compat"


class SourceWrappers:
    """Makes the wrappers on `ASTSource`, for the Triton generation of `shim`."""

    def __init__(self, shim: Shim) -> None:
        self.shim = shim
        self.generation = shim.generation
        self._make: Callable[..., Record | None] | None = None

    def wrap_init(self, original: Callable[..., None]) -> Callable[..., None]:
        """`ASTSource.__init__` that keeps leaked options out of the source's constants."""
        constants_parameter = self.generation.constants_parameter

        @functools.wraps(original)
        def __init__(source: Any, *args: Any, **kwargs: Any) -> None:
            if CONSTANTS in self.shim.fixes:
                constants = args[2] if len(args) > 2 else kwargs.get(constants_parameter)
                # Nearly every source is clean and pays for this look only: see benchmarks/.
                if constants and _has_leaked_key(constants, args[0] if args else kwargs.get("fn")):
                    return self._init_leaky(original, source, args, kwargs)
            return original(source, *args, **kwargs)

        return __init__

    def wrap_parse_options(self, original: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """`ASTSource.parse_options` that adds the source's delivered options to its own.

        Every Triton generation lets what it returns override the caller's options.
        """

        @functools.wraps(original)
        def parse_options(source: Any) -> dict[str, Any]:
            own = original(source)
            if CONSTANTS not in self.shim.fixes:
                return own
            record = self._record_of(source)
            if record is None:
                return own
            target, asked = generations.visible_caller(sys._getframe(1))
            if not self._concerns_npu(source, record, target):
                return own
            self._report(source, record)
            if asked:
                self._log_conflicts(source, record, asked)
            return {**own, **record["options"]}

        return parse_options

    def wrap_ast_to_ttir(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`ast_to_ttir` for frontends that make TTIR without `compile`: it reports and refuses as well."""

        @functools.wraps(original)
        def ast_to_ttir(*args: Any, **kwargs: Any) -> Any:
            # The second argument is called `specialization` up to Triton 3.2 and `src` from 3.3 on.
            source = args[1] if len(args) > 1 else kwargs.get("src", kwargs.get("specialization"))
            if CONSTANTS in self.shim.fixes and isinstance(source, self.generation.source_class):
                record = self._record_of(source)
                if record is not None:
                    target, _ = generations.visible_caller(sys._getframe(1))
                    if self._concerns_npu(source, record, target):
                        self._report(source, record)
            return original(*args, **kwargs)

        return ast_to_ttir

    def wrap_async_key(self, original: Callable[..., str]) -> Callable[..., str]:
        """The key by which Triton's asynchronous mode tells compiles apart. It is made before the source's
        options are asked for: candidates that differ in a delivered option only would become one."""

        @functools.wraps(original)
        def get_cache_key(src: Any, *args: Any, **kwargs: Any) -> str:
            key = original(src, *args, **kwargs)
            record = getattr(src, RECORD, None) if CONSTANTS in self.shim.fixes else None
            return f"{key}-{sorted(record['options'].items())}" if record else key

        return get_cache_key

    def _init_leaky(
        self, original: Callable[..., None], source: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        # Replaced where they stand: a call that is wrong in other ways fails as it would without the shim.
        names = ("fn", "signature", self.generation.constants_parameter)
        given = {**dict(zip(names, args)), **kwargs}
        record = self._make_record(*(given.get(name) for name in names))
        if record is None:
            return original(source, *args, **kwargs)
        cleaned = {"signature": record["clean_signature"], names[2]: record["kept"]}
        positional = [*(cleaned.get(name, value) for name, value in zip(names, args)), *args[3:]]
        keywords = {name: cleaned.get(name, value) for name, value in kwargs.items()}
        original(source, *positional, **keywords)
        setattr(source, RECORD, record)
        for base in type(source).__mro__:
            if base is self.generation.source_class:
                break
            if "parse_options" in base.__dict__:
                self.shim.cover(base, "parse_options", self.wrap_parse_options)
        return None

    def _make_record(self, fn: Any, signature: Any, constants: Any) -> Record | None:
        if self._make is None:
            from triton_ascend_compat import record

            self._make = record.make
        return self._make(self.shim, fn, signature, constants)

    def _report(self, source: Any, record: Record) -> None:
        from triton_ascend_compat import reporting

        reporting.report(source.fn, record, self.shim.strict)

    def _log_conflicts(self, source: Any, record: Record, asked: Mapping[str, Any]) -> None:
        from triton_ascend_compat import reporting

        reporting.log_conflicts(source.fn, record["options"], asked)

    def _record_of(self, source: Any) -> Record | None:
        """The record of `source`. Up to Triton 3.2 constants may also be set without `ASTSource.__init__`
        (a subclass, an unpickled source): such a source gets its record here."""
        record: Record | None = source.__dict__.get(RECORD)
        if record is not None or self.generation.resolves_names_early:
            return record
        if not _has_leaked_key(source.constants, source.fn):
            return None
        record = self._make_record(source.fn, source.signature, source.constants)
        if record is not None:
            source.constants, source.signature = record["kept"], record["clean_signature"]
            setattr(source, RECORD, record)
        return record

    def _concerns_npu(self, source: Any, record: Record, target: Any) -> bool:
        """Whether `source` is being compiled for npu. For another target it becomes what it would be without
        the shim: its constants come back, or, where those would never have been accepted, Triton's error."""
        if target is None or target.backend == generations.NPU:
            return True
        if self.generation.resolves_names_early:
            generations.raise_name_error(source.fn, record["verdicts"][0][0])
        delattr(source, RECORD)
        source.constants = record["constants"]
        if record["clean_signature"] is not record["signature"]:
            source.signature = record["signature"]
        return False


def _has_leaked_key(constants: Any, fn: Any) -> bool:
    """`plan.leaked_keys` for the hot path: whether there is any."""
    parameters = getattr(fn, "arg_names", None)
    if parameters is None or not (type(constants) is dict or isinstance(constants, Mapping)):
        return False
    for key in constants:  # noqa: SIM110 - a generator would cost twice as much
        if isinstance(key, str) and key not in parameters:
            return True
    return False
