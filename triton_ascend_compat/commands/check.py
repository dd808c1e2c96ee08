"""`check TARGET…`: do these Triton kernels compile for Ascend? Answered without CANN and without an NPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Callable

import click

from triton_ascend_compat.checking.jobs import BadTarget, Job, Outcome, parse_targets, run_jobs
from triton_ascend_compat.offline import (
    DEFAULT_CHIP,
    HivmUnavailable,
    NoAscendBackend,
    UnknownChip,
    backend,
    chips,
)
from triton_ascend_compat.offline import hivm as hivm_stage

_KERNEL_FAILED, _TARGET_FAILED = 1, 3


class _Cannot(click.ClickException):
    """The check cannot start; the message says why."""

    exit_code = 2


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--chip",
    "chip_names",
    multiple=True,
    metavar="NAME[,NAME…]",
    help=f"Chips to compile for; may be given several times. Default: {DEFAULT_CHIP}.",
)
@click.option("--hivm", is_flag=True, help="Run bishengir-compile too; needs the extra [hivm].")
@click.option(
    "--format",
    "report_format",
    type=click.Choice(["table", "json", "junit", "github"]),
    default="table",
    show_default=True,
)
@click.option("--output", type=click.Path(dir_okay=False), help="Write the report to this file.")
@click.option(
    "--leaks",
    type=click.Choice(["warn", "error"]),
    default="warn",
    show_default=True,
    help="Whether options that stand among a kernel's constants, or get lost, fail the check.",
)
@click.option(
    "--cache", type=click.Path(file_okay=False), help="Folder of compiled kernels, for a second run."
)
@click.option("--jobs", type=click.IntRange(1), help="Targets to run at a time. Default: one a CPU.")
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    chip_names: tuple[str, ...],
    hivm: bool,
    report_format: str,
    output: str | None,
    leaks: str,
    cache: str | None,
    jobs: int | None,
    targets: tuple[str, ...],
) -> None:
    """Run each TARGET in offline mode and report, for every kernel and config, whether it compiles.

    A TARGET is a script, a module (run as `python -m` does), or either with arguments in one quoted word;
    or `pytest` and, after it, pytest's own arguments. Launches compile, and execute nothing.

    \b
    Exit code: 0 all kernels compiled; 1 a kernel did not compile, or options leaked with --leaks=error;
               2 wrong usage: an unknown chip, no triton-ascend, no bishengir-compile for --hivm;
               3 a target itself failed. What was recorded until then is reported all the same.
    """
    names = [name for given in chip_names for name in given.split(",") if name] or [DEFAULT_CHIP]
    try:
        _require(names, hivm)
        wanted = [Job(target, name, hivm, cache) for target in parse_targets(targets) for name in names]
    except (BadTarget, UnknownChip, NoAscendBackend, HivmUnavailable) as error:
        raise _Cannot(str(error)) from error
    outcomes = _run(wanted, jobs or os.cpu_count() or 1)
    _write(report_format, outcomes, output)
    raise SystemExit(_exit_code(outcomes, leaks))


def _require(chip_names: list[str], hivm: bool) -> None:
    """Find out before anything runs what would make every job fail."""
    for name in chip_names:
        chips.check_chip(name)
    backend.backend_class()
    if hivm:
        tools = hivm_stage.find_tools()
        for name in chip_names:
            hivm_stage.check_chip(tools, name)


def _run(wanted: list[Job], workers: int) -> list[Outcome]:
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return run_jobs(wanted, workers, lambda *_: None)
    with console.status("starting") as status:

        def show(done: int, compiles: int, failed: int) -> None:
            status.update(f"{done} of {len(wanted)} targets done, {compiles} compiles, {failed} failed")

        return run_jobs(wanted, workers, show)


def _write(report_format: str, outcomes: list[Outcome], output: str | None) -> None:
    from triton_ascend_compat.checking import reports

    make: Callable[[list[Outcome]], str] = reports.FORMATS[report_format]
    report = make(outcomes)
    if output is None:
        click.echo(report, nl=not report.endswith("\n"))
        return
    try:
        Path(output).write_text(report, encoding="utf-8")
    except OSError as error:
        click.echo(report)
        raise _Cannot(f"cannot write {output}: {error.strerror}") from error
    click.echo(reports.summary_line(outcomes), file=sys.stderr)


def _exit_code(outcomes: list[Outcome], leaks: str) -> int:
    if any(outcome.failure is not None for outcome in outcomes):
        return _TARGET_FAILED
    records = [record for outcome in outcomes for record in outcome.records]
    if any(not record.ok for record in records):
        return _KERNEL_FAILED
    leaked = any(record.dropped or any(not fate.quiet for fate in record.keys) for record in records)
    return _KERNEL_FAILED if leaks == "error" and leaked else 0
