"""What the shim does to an `ASTSource`: it takes leaked options out when a source is made and hands them
over when its options are asked for. The decision itself is in `plan`.

A source with leaked keys carries a record, plain data only, since frontends pickle sources between
processes: what is to be delivered, what is to be reported, and what the frontend gave.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any, Callable

# The modules that decide and report are imported where they are used: this one is loaded by every process
# that imports triton under TRITON_PLUGIN, most of which never see a leaked key.
from triton_ascend_compat import generations
from triton_ascend_compat.generations import Generation

#: The attribute of a source that holds its record.
RECORD = "_triton_ascend_compat"


class SourceShim:
    """Makes the wrappers for one Triton generation, and says whether they act.

    Attributes:
        on: whether the wrappers act; they stay in place, inert, where others have wrapped on top of them.
        strict: whether an option that is absent here is an error rather than a warning.
        cover: called with a subclass of `ASTSource` that overrides `parse_options`, to wrap it there too.
    """

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.on = False
        self.strict = False
        self.cover: Callable[[type], None] = lambda _: None

    def wrap_init(self, original: Callable[..., None]) -> Callable[..., None]:
        """`ASTSource.__init__` that keeps leaked options out of the source's constants."""
        constants_parameter = self.generation.constants_parameter

        @functools.wraps(original)
        def __init__(source: Any, *args: Any, **kwargs: Any) -> None:
            if self.on:
                constants = args[2] if len(args) > 2 else kwargs.get(constants_parameter)
                if constants and isinstance(constants, Mapping):
                    fn = args[0] if args else kwargs.get("fn")
                    # Nearly every source is clean and pays for this look only: see benchmarks/.
                    parameters = getattr(fn, "arg_names", constants)
                    for key in constants:
                        if isinstance(key, str) and key not in parameters:
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
            if not self.on:
                return own
            record = self._record_of(source)
            if record is None:
                return own
            caller = generations.visible_caller(sys._getframe(1))
            if not self._concerns_npu(source, record, caller.target):
                return own
            from triton_ascend_compat import reporting

            reporting.report(source.fn, record, self.strict)
            reporting.log_conflicts(source.fn, record["options"], caller.options)
            return {**own, **record["options"]}

        return parse_options

    def wrap_ast_to_ttir(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`ast_to_ttir` for frontends that make TTIR without `compile`: it reports and refuses as well."""

        @functools.wraps(original)
        def ast_to_ttir(*args: Any, **kwargs: Any) -> Any:
            # The second argument is called `specialization` up to Triton 3.2 and `src` from 3.3 on.
            source = args[1] if len(args) > 1 else kwargs.get("src", kwargs.get("specialization"))
            if self.on and isinstance(source, self.generation.source_class):
                record = self._record_of(source)
                if record is not None:
                    caller = generations.visible_caller(sys._getframe(1))
                    if self._concerns_npu(source, record, caller.target):
                        from triton_ascend_compat import reporting

                        reporting.report(source.fn, record, self.strict)
            return original(*args, **kwargs)

        return ast_to_ttir

    def _init_leaky(
        self, original: Callable[..., None], source: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        names = ("fn", "signature", self.generation.constants_parameter, "attrs")
        given = {**dict(zip(names, args)), **kwargs}
        constants = given[self.generation.constants_parameter]
        record = self._make_record(given["fn"], given.get("signature"), constants)
        if record is None:
            return original(source, *args, **kwargs)
        cleaned = {
            "signature": record["clean_signature"],
            self.generation.constants_parameter: record["kept"],
        }
        original(source, **{**given, **cleaned})
        setattr(source, RECORD, record)
        for base in type(source).__mro__:
            if base is self.generation.source_class:
                break
            if "parse_options" in base.__dict__:
                self.cover(base)
        return None

    def _make_record(self, fn: Any, signature: Any, constants: Mapping[Any, Any]) -> Any:
        """The record of a source with leaked keys; None where no npu backend is installed."""
        from triton_ascend_compat import plan
        from triton_ascend_compat.catalog import known_options
        from triton_ascend_compat.events import Outcome
        from triton_ascend_compat.options import installed_options

        backend_class = generations.npu_backend_class()
        installed = installed_options(backend_class) if backend_class is not None else None
        if installed is None:
            return None
        decision = plan.decide(constants, fn.arg_names, installed, known_options())
        leaked = {verdict.key for verdict in decision.verdicts}
        kept: dict[Any, Any] = dict(decision.kept)
        if not self.generation.resolves_names_early:
            # Left where the code generator fails on it, so that no way to compile ignores a refused key.
            refused = {verdict.key for verdict in decision.of(Outcome.REFUSED)}
            kept = {key: value for key, value in constants.items() if key not in leaked or key in refused}
        clean_signature = signature
        if isinstance(signature, Mapping) and any(signature.get(key) == "constexpr" for key in leaked):
            clean_signature = {
                key: kind for key, kind in signature.items() if not (key in leaked and kind == "constexpr")
            }
        return {
            "options": dict(decision.options),
            "verdicts": [(v.key, v.value, v.outcome.value, v.reason) for v in decision.verdicts],
            "kept": kept,
            "clean_signature": clean_signature,
            "constants": constants,
            "signature": signature,
            "reported": False,
        }

    def _record_of(self, source: Any) -> Any:
        """The record of `source`. Up to Triton 3.2 constants may also be set without `ASTSource.__init__`
        (a subclass, an unpickled source): such a source gets its record here."""
        record = source.__dict__.get(RECORD)
        if record is not None or self.generation.resolves_names_early:
            return record
        constants = source.constants
        from triton_ascend_compat import plan

        if not constants or not plan.leaked_keys(constants, source.fn.arg_names):
            return None
        record = self._make_record(source.fn, source.signature, constants)
        if record is not None:
            source.constants, source.signature = record["kept"], record["clean_signature"]
            setattr(source, RECORD, record)
        return record

    def _concerns_npu(self, source: Any, record: Any, target: Any) -> bool:
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
