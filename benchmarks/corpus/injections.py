"""Options put among the constants of kernels that compiled, where they do not belong."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Iterator
from typing import Any

from triton_ascend_compat import CompileOptionError
from triton_ascend_compat.decision.plan import Outcome
from triton_ascend_compat.offline import Session, offline


def compiled_sources(device: int) -> list[Any]:
    """One `ASTSource` for each kernel that the JIT holds for this device number: one that compiled."""
    from triton.runtime.jit import JITFunction

    kernels = {}
    for fn in gc.get_objects():
        if isinstance(fn, JITFunction):
            for kernel in fn.cache.get(device, {}).values():
                kernels.setdefault((fn.module, fn.__name__), kernel.src)
    return list(kernels.values())


def with_constants(source: Any, **more: Any) -> Any:
    """A new source that also has `more` among its constants, as a broken frontend makes it."""
    return type(source)(source.fn, dict(source.signature), {**source.constants, **more}, source.attrs)


def inject_into_all(session: Session) -> dict[str, Any]:
    """For every kernel: is a leaked option delivered as if asked properly, is one that this release does not
    have left out, is a misspelt one refused? Counts, and the kernels where the answer is another one."""
    kernels = compiled_sources(session.device)
    counts = {"kernels": len(kernels), "delivered": 0, "ignored": 0, "refused": 0}
    wrong: list[str] = []
    warnings.simplefilter("ignore")
    with offline(session.chip, cache=session.cache) as aside:
        for source in kernels:
            with _counted(counts, wrong, "delivered", source):
                leaked = _compile(aside, with_constants(source, multibuffer=False))
                asked = _compile(aside, with_constants(source), multibuffer=False)
                assert leaked.metadata.multibuffer is False
                assert leaked.hash == asked.hash
            with _counted(counts, wrong, "ignored", source):
                absent = _compile(aside, with_constants(source, auto_blockify_size=2))
                plain = _compile(aside, with_constants(source))
                assert aside.records[-2].keys_that_were(Outcome.IGNORED)
                assert absent.hash == plain.hash
            with _counted(counts, wrong, "refused", source):
                with contextlib.suppress(CompileOptionError):
                    _compile(aside, with_constants(source, multibufer=False))
                    raise AssertionError("a misspelt option compiled")
                assert "'multibufer' is not in list" in str(aside.records[-1].error)
    return {**counts, "wrong": wrong}


def _compile(session: Session, source: Any, **options: Any) -> Any:
    import triton

    return triton.compile(source, target=session.target, options=options)


@contextlib.contextmanager
def _counted(counts: dict[str, int], wrong: list[str], name: str, source: Any) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        wrong.append(f"{source.name}: {name}: {type(error).__name__}: {str(error)[:200]}")
    else:
        counts[name] += 1
