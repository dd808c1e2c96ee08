"""`check TARGET…`: do these Triton kernels compile for Ascend? Answered without CANN and without an NPU."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import click

from triton_ascend_compat.checking import page, reports, verdict
from triton_ascend_compat.checking.jobs import (
    BadTarget,
    Job,
    Outcome,
    Stopped,
    module,
    parse_targets,
    run_jobs,
)
from triton_ascend_compat.offline import (
    DEFAULT_CHIP,
    HivmUnavailable,
    NoAscendBackend,
    UnknownChip,
    backend,
    chips,
    judging,
)
from triton_ascend_compat.offline import hivm as hivm_stage

FORMATS: dict[str, Callable[..., str]] = {
    "table": reports.as_table,
    "json": reports.as_json,
    "junit": reports.as_junit,
    "github": reports.as_github,
    "html": page.as_html,
}


class _Cannot(click.ClickException):
    """The check cannot start; the message says why."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        with contextlib.suppress(OSError):  # stderr may be what cannot be written to
            click.echo(f"Error: {reports.clean(self.format_message())}", err=True)


def _let_go() -> None:
    """Forget what standard output and error could not write."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Command(click.Command):
    """Leaves to a target what is its own: all words behind a `--`, and behind a plain `pytest`."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*args, **more)
        except click.UsageError as error:
            raise _Cannot(error.format_message()) from error  # one line, without the usage

    def invoke(self, ctx: click.Context) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:  # not when Python ends, which has an exit code of its own for that
                sys.stdout.flush()
                sys.stderr.flush()
        except OSError as error:  # a full disk, a reader that has gone: by no means a kernel's failure
            _let_go()
            raise _Cannot(f"the check or its report could not be finished: {error}") from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = min([args.index(word) for word in ("--", "pytest") if word in args], default=len(args))
        if at and args[at - 1] in self._options_with_a_value():
            at = len(args)
        ctx.meta["own"] = args[at + 1 :]
        return super().parse_args(ctx, [*args[:at], *(["pytest"] if args[at : at + 1] == ["pytest"] else [])])

    def _options_with_a_value(self) -> set[str]:
        options = [param for param in self.params if isinstance(param, click.Option) and not param.is_flag]
        return {name for option in options for name in option.opts}


def _shard(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d+)/(\d+)", value) if value is not None else None
    if value is not None and (match is None or not 1 <= int(match[1]) <= int(match[2])):
        raise _Cannot(f"--shard {value}: write K/N, with K from 1 to N, as in 1/4")
    return (int(match[1]), int(match[2])) if match is not None else None


@click.command(cls=_Command)
@click.option("-m", "modules", multiple=True, metavar="MODULE", help="A module to run, as `python -m` does.")
@click.option(
    "--chip",
    "chip_names",
    multiple=True,
    metavar="NAME[,NAME…]",
    help=f"Chips to compile for; may be given several times. Default: {DEFAULT_CHIP}.",
)
@click.option("--hivm", is_flag=True, help="Run bishengir-compile too; needs the extra [hivm].")
@click.option("--execute", is_flag=True, help="Compute launches on the CPU; needs the extra [hivm].")
@click.option(
    "--format",
    "report_format",
    type=click.Choice(list(FORMATS)),
    default="table",
    show_default=True,
)
@click.option("--output", metavar="FILE", help="Write the report to this file.")
@click.option(
    "--options", "inventory", is_flag=True, help="List the options in use, and what became of them."
)
@click.option(
    "--leaks",
    type=click.Choice(["warn", "error"]),
    default="warn",
    show_default=True,
    help="Whether options that stand among a kernel's constants, or get lost, fail the check.",
)
@click.option(
    "--tuner-failures",
    type=click.Choice(judging.POLICIES),
    help="Which configs fail the check while another config of the same run of a tuner compiles; unexpected, "
    "the default: all but those that tuners are there to skip, which is what a static_assert or on-chip "
    "memory rules out.",
)
@click.option(
    "--max-specializations", type=click.IntRange(1), metavar="N", help="How many a kernel may have at most."
)
@click.option("--allow-empty", is_flag=True, help="A target may compile nothing.")
@click.option("--cache", metavar="DIR", help="Folder of compiled kernels, for a second run.")
@click.option("--jobs", type=click.IntRange(1), help="Targets to run at a time. Default: one a CPU.")
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="For each target."
)
@click.option("--shard", callback=_shard, metavar="K/N", help="Run the K-th of N parts of the targets only.")
@click.option("--merge", is_flag=True, help="The targets are JSON reports: make one report of them.")
@click.argument("targets", metavar="TARGET...", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Run each TARGET in offline mode and report, for every kernel and config, whether it compiles.

    A TARGET is a script, a module (run as `python -m` does), or either with arguments in one quoted word;
    or `pytest` and, after it, pytest's own arguments. What stands after `--` are the targets' own arguments.
    Launches compile, and execute nothing unless with --execute. After one that fails a script goes on where
    nothing depends on it.

    \b
    Exit code: 0 all kernels compiled;
               1 a kernel did not compile; or options leaked with --leaks=error, or a kernel has more
                 specializations than --max-specializations;
               2 wrong usage: an unknown chip, no triton-ascend, no bishengir-compile for --hivm, no such
                 target, a file that cannot be written;
               3 a target itself failed, or compiled nothing (unless --allow-empty), or ran out of time;
               130, 143 Ctrl-C or SIGTERM came. What was recorded until then is reported all the same.
    """
    shard: tuple[int, int] | None = given["shard"]
    rules = verdict.Rules(
        given["leaks"] == "error",
        given["allow_empty"],
        given["max_specializations"],
        given["tuner_failures"] or judging.DEFAULT_POLICY,
    )
    code = None
    try:
        if given["merge"]:
            _prepare(given["output"], given["targets"])
            outcomes = _merged(given["targets"])
        else:
            jobs = _jobs(ctx.meta["own"], given)
            wanted = jobs[shard[0] - 1 :: shard[1]] if shard is not None else jobs
            outcomes = _run(
                wanted, given["jobs"] or os.cpu_count() or 1, given["timeout"], given["report_format"]
            )
    except (BadTarget, UnknownChip, NoAscendBackend, HivmUnavailable) as error:
        raise _Cannot(str(error)) from error
    except Stopped as stop:
        outcomes, code = stop.outcomes, 128 + stop.number
        ended = sum(outcome.failure != "it was stopped" for outcome in outcomes)
        click.echo(
            f"{stop}: {ended} of {len(wanted)} targets done; {reports.summary_line(outcomes)}", err=True
        )
    make = FORMATS[given["report_format"]]
    report = make(outcomes, rules, *([f"{shard[0]}/{shard[1]}"] if shard and make is reports.as_json else []))
    if given["inventory"] and given["report_format"] == "table":
        report += "\n" + reports.options_table(outcomes)
    _write(report, outcomes, given["output"])
    raise SystemExit(code if code is not None else verdict.exit_code(outcomes, rules))


def _jobs(own: list[str], given: dict[str, Any]) -> list[Job]:
    """Find out before anything runs what would make every job fail."""
    words = list(given["targets"])
    targets = parse_targets([*words, *own]) if "pytest" in words else parse_targets(words, own)
    targets = [*(module(name, own) for name in given["modules"]), *targets]
    if not targets:
        raise BadTarget("a TARGET is missing: name a script, a module or a pytest command")
    names = dict.fromkeys(name for each in given["chip_names"] for name in each.split(",")) or [DEFAULT_CHIP]
    for name in names:
        chips.check_chip(name)
    backend.backend_class()
    if given["hivm"] or given["execute"]:
        tools = hivm_stage.find_tools()
        for name in names:
            hivm_stage.check_chip(tools, name)
    cache = given["cache"]
    try:
        if cache is not None:
            cache = str(Path(cache).absolute())
            Path(cache).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _Cannot(f"--cache {given['cache']}: no such folder can be made: {error.strerror}") from error
    _prepare(given["output"], [target.name for target in targets if target.kind == "script"])
    how = (given["hivm"], cache, given["execute"], given["tuner_failures"])
    return [Job(target, name, *how) for target in targets for name in names]


def _prepare(output: str | None, sources: Sequence[str]) -> None:
    """See to it that the report can be written, and that it overwrites nothing that is read."""
    if output is None:
        return
    path = Path(output)
    if any(Path(source).exists() and path.exists() and path.samefile(source) for source in sources):
        raise _Cannot(f"--output {output} would overwrite a target")
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise _Cannot(f"cannot write {output}: {error.strerror}") from error
    if not existed:
        path.unlink()


def _merged(files: Sequence[str]) -> list[Outcome]:
    """The outcomes in JSON reports; all shards have to be there."""
    outcomes: list[Outcome] = []
    shards: list[str] = []
    for file in files:
        try:
            data = json.loads(Path(file).read_text(encoding="utf-8"))
            outcomes += [Outcome.from_dict(target) for target in data["targets"]]
            shards += [data["shard"]] if data["shard"] else []
        except OSError as error:
            raise BadTarget(f"cannot read {file}: {error.strerror}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise BadTarget(f"{file} is no JSON report of this version of check") from error
    wanted = {
        f"{number}/{of}" for of in {int(s.partition("/")[2]) for s in shards} for number in range(1, of + 1)
    }
    if wanted - set(shards):
        raise BadTarget(f"the report of shard {', '.join(sorted(wanted - set(shards)))} is missing")
    if len(shards) > len(wanted):
        raise BadTarget(f"of the reports of shards {', '.join(sorted(shards))} some are of the same shard")
    if not outcomes:
        raise BadTarget("--merge: name the JSON reports; one at least has to tell of a target")
    return outcomes


def _run(wanted: list[Job], workers: int, timeout: float | None, report_format: str) -> list[Outcome]:
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    shown: list[Outcome] = []

    def show(outcomes: Sequence[Outcome], compiles: int) -> None:
        for outcome in outcomes[len(shown) :]:
            shown.append(outcome)
            _tell(outcome, f"{len(shown)} of {len(wanted)}", report_format)
        if status is not None:
            status.update(f"{len(outcomes)} of {len(wanted)} targets done, {compiles} compiles")

    if not console.is_terminal:
        status = None
        return run_jobs(wanted, workers, show, timeout)
    with console.status("starting") as status:
        return run_jobs(wanted, workers, show, timeout)


def _tell(outcome: Outcome, number: str, report_format: str) -> None:
    """A line on stderr for a target that has ended, and what it printed, which JSON has."""
    failed = sum(not record.ok for record in outcome.records)
    state = "failed" if outcome.failure is not None else f"{len(outcome.records)} compiles, {failed} failed"
    lines = [f"[{number}] {outcome.job.label}: {state}"]
    if report_format != "json" or outcome.failure is not None or failed:
        lines += [f"| {line}" for line in outcome.output.splitlines()]
    click.echo("\n".join(map(reports.clean, lines)), err=True)


def _write(report: str, outcomes: list[Outcome], output: str | None) -> None:
    if output is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack a character
        click.echo(report, nl=not report.endswith("\n"))
        return
    try:
        Path(output).write_text(report, encoding="utf-8")
    except OSError as error:
        click.echo(report)
        raise _Cannot(f"cannot write {output}: {error.strerror}") from error
    click.echo(reports.summary_line(outcomes), err=True)
