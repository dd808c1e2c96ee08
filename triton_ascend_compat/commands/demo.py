"""`demo`: the reported case, compiled for real, without the shim and with it."""

from __future__ import annotations

import logging
import os
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from triton_ascend_compat.decision.plan import Outcome

CANDIDATES: tuple[Mapping[str, Any], ...] = (
    {},
    {"auto_blockify_size": 2},
    {"auto_blockify_size": 4},
    {"auto_blockify_size": 8},
    {"multibuffer": True},
    {"multibuffer": False},
)
MISSPELT: Mapping[str, Any] = {"auto_blockfy_size": 2}


@dataclass(frozen=True)
class Attempt:
    """One compiled candidate: `outcome` of its key, `kernel` (a CompiledKernel) or the error's text."""

    candidate: Mapping[str, Any]
    outcome: Outcome | None
    kernel: Any
    error: str
    milliseconds: float

    @property
    def label(self) -> str:
        """The candidate as a tuner would print it."""
        return ", ".join(f"{key}={value}" for key, value in self.candidate.items()) or "plain"


@click.command()
@click.option("--compute", is_flag=True, help="Compute three miscompiled kernels instead; needs [hivm].")
def command(compute: bool) -> None:
    """Compile the reported case: five fp32 loads over 2**28 elements, XBLOCK 4096, grid 65536.

    The front end and the compiler down to linalg are the installed triton-ascend's own; the last stage,
    which needs CANN, is replaced (offline mode), and nothing is executed. With --compute, kernels that
    triton-ascend 3.2.0 compiles wrongly are executed on this machine's CPU, and compared with NumPy.

    \b
    Exit code: 0 the candidates compiled; 1 one did not, or Triton cannot be used here.
    """
    with tempfile.TemporaryDirectory(prefix="triton-ascend-compat-demo-") as scratch:
        os.environ.update(TRITON_CACHE_DIR=f"{scratch}/cache", TRITON_DUMP_DIR=f"{scratch}/dump")
        try:
            import triton  # noqa: F401
        except Exception as error:
            raise click.ClickException(
                f"the demo needs triton-ascend, and importing triton failed: {error}"
            ) from error
        raise SystemExit(0 if (_run_computed() if compute else _run()) else 1)


def _run_computed() -> bool:
    from triton_ascend_compat import generations
    from triton_ascend_compat.commands import compute_demo

    return compute_demo.run(generations.installed_release())


def _run() -> bool:
    import triton_ascend_compat
    from triton_ascend_compat import _demo_kernel, generations, settings
    from triton_ascend_compat.offline import NoAscendBackend, offline

    release = generations.installed_release()
    settings.logger().addHandler(logging.NullHandler())  # the demo prints what would be logged by default
    grid = -(-_demo_kernel.ELEMENTS // _demo_kernel.XBLOCK)
    try:
        with offline() as session:
            click.echo(
                f"{release}, target npu:{session.target.arch}, offline: the front end, TTIR and\n"
                "linalg are the real ones; the last stage, which needs CANN, keeps the linalg text\n"
                "as its binary; nothing is executed.\n"
                f"Kernel add_five: five fp32 loads, {_demo_kernel.ELEMENTS} elements, XBLOCK "
                f"{_demo_kernel.XBLOCK}, grid {grid}.\n"
            )
            needed = triton_ascend_compat.disable().needed
            heading = "" if needed else " (this Triton is fixed already, by a patch or upstream)"
            click.secho(f"Without the shim, as the broken frontend calls it{heading}:", bold=True)
            broken = [_attempt(session.target, candidate) for candidate in (CANDIDATES[1], CANDIDATES[4])]
            for attempt in broken:
                click.echo(f"  {attempt.label}: {attempt.error or 'compiled'}")
            status = triton_ascend_compat.enable()
            click.secho(f"\n{'With the shim' if status.active else status.reason}:", bold=True)
            attempts = [_attempt(session.target, candidate) for candidate in CANDIDATES]
            _print_table(attempts)
            click.echo(_meaning(attempts, release))
            click.secho("\nA misspelt key:", bold=True)
            misspelt = _attempt(session.target, MISSPELT)
            click.echo(f"  {misspelt.label}: {misspelt.error or 'compiled'}")
            return all(attempt.kernel is not None for attempt in attempts) and misspelt.kernel is None
    except NoAscendBackend as error:
        raise click.ClickException(str(error)) from error


def _attempt(target: Any, candidate: Mapping[str, Any]) -> Attempt:
    """Compile one candidate the way the broken frontend does: its keys merged into the constants."""
    from triton.compiler import ASTSource, compile

    from triton_ascend_compat import _demo_kernel
    from triton_ascend_compat.telling import events

    seen: list[events.Event] = []
    unsubscribe = events.subscribe(seen.extend)
    kernel, error, start = None, "", time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table says what the warning would
            constants = {"XBLOCK": _demo_kernel.XBLOCK, **candidate}
            source = ASTSource(_demo_kernel.add_five, _demo_kernel.SIGNATURE, constants)
            kernel = compile(source, target=target)
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}"
    finally:
        unsubscribe()
    outcome = seen[0].fate.outcome if seen else None
    return Attempt(candidate, outcome, kernel, error, 1000 * (time.perf_counter() - start))


def _print_table(attempts: list[Attempt]) -> None:
    from rich.console import Console
    from rich.table import Table

    words = {
        Outcome.DELIVERED: "delivered",
        Outcome.IGNORED: "not in this release, ignored",
        Outcome.REFUSED: "refused",
        None: "-",
    }
    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in ("candidate", "its key", "metadata", "hash", "stage", "ms"):
        table.add_column(heading, justify="right" if heading == "ms" else "left", no_wrap=True)
    for attempt in attempts:
        table.add_row(
            attempt.label,
            words[attempt.outcome],
            ", ".join(_metadata_value(attempt, key) for key in attempt.candidate) or "-",
            attempt.kernel.hash[:10] if attempt.kernel else "-",
            list(attempt.kernel.asm)[-1] if attempt.kernel else "-",
            f"{attempt.milliseconds:.0f}",
        )
    Console().print(table)
    for attempt in attempts:
        if attempt.error:
            click.echo(f"  {attempt.label}: {attempt.error}")


def _metadata_value(attempt: Attempt, key: str) -> str:
    if attempt.kernel is None:
        return "-"
    return str(attempt.kernel.metadata._asdict().get(key, "absent"))


def _meaning(attempts: list[Attempt], release: str) -> str:
    """What the table says, in one line, from what was measured."""
    plain, sizes = attempts[0], attempts[1:4]
    if any(attempt.kernel is None for attempt in attempts):
        return "Not every candidate compiled: see the table."
    hashes = {attempt.kernel.hash for attempt in sizes}
    default = next(
        (attempt.label for attempt in attempts[4:] if attempt.kernel.hash == plain.kernel.hash), ""
    )
    multibuffer = (
        f"multibuffer is delivered ({default} is the default)" if default else "multibuffer is delivered"
    )
    if all(attempt.outcome is Outcome.IGNORED for attempt in sizes) and hashes == {plain.kernel.hash}:
        return (
            f"{release} has no auto_blockify_size, so its three candidates are the plain kernel, with one "
            f"hash; {multibuffer}."
        )
    return f"auto_blockify_size gave {len(hashes)} kernels for three values; {multibuffer}."
