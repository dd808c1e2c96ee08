"""The record that a source with leaked keys carries: plain data only, since frontends pickle sources
between processes.

    options           what is delivered: name -> value
    verdicts          (key, value, outcome, reason, quiet) of each leaked key, in the order they came
    reported          whether that has been told (see `reporting`)
    constants         what the frontend gave, and what is left of it for the source
    kept
    signature         likewise
    clean_signature
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton_ascend_compat import knowledge, plan
from triton_ascend_compat.events import Outcome
from triton_ascend_compat.shim import Shim

Record = dict[str, Any]


def make(shim: Shim, fn: Any, signature: Any, constants: Mapping[Any, Any]) -> Record | None:
    """The record for a source of kernel `fn` with leaked keys; None where no npu backend is installed.

    Args:
        shim: which Triton generation, and which fixes are on.
        fn: the JITFunction.
        signature: the source's signature, a mapping, or a string up to Triton 3.4.
        constants: its constants; some key is leaked.
    """
    known = knowledge.gather(shim.fixes)
    if known is None:
        return None
    decision = plan.decide(constants, fn.arg_names, *known)
    kept = decision.kept
    clean_signature = _without_leaked(signature, [verdict.key for verdict in decision.verdicts])
    refused = {verdict.key for verdict in decision.verdicts if verdict.outcome is Outcome.REFUSED}
    # A refused key is left where the code generator fails on it, so that no way to compile ignores it, not
    # even a reference to `ast_to_ttir` taken early: among the constants, or from Triton 3.3 on, whose
    # constants have no names any more, in the signature.
    if refused and not shim.generation.resolves_names_early:
        kept = {key: value for key, value in constants.items() if key in kept or key in refused}
    elif refused and isinstance(signature, Mapping):
        clean_signature = {**clean_signature, **dict.fromkeys(sorted(refused), "constexpr")}
    return {
        "options": decision.options,
        "verdicts": [(v.key, v.value, v.outcome.value, v.reason, v.quiet) for v in decision.verdicts],
        "reported": False,
        "constants": constants,
        "kept": kept,
        "signature": signature,
        "clean_signature": clean_signature,
    }


def _without_leaked(signature: Any, leaked: list[str]) -> Any:
    """`signature` without the `'constexpr'` entries that frontends for Triton 3.3+ write for constants."""
    if not isinstance(signature, Mapping):
        return signature
    entries = [key for key in leaked if signature.get(key) == "constexpr"]
    if not entries:
        return signature
    return {key: kind for key, kind in signature.items() if key not in entries}
