"""`run SCRIPT|-m MODULE ARGS…`: like `python SCRIPT|-m MODULE ARGS…`, with the shim switched on.

The way in for environments whose site directories are not processed (`python -S`, `pip install --target`),
and for those who would rather not set a variable. Child processes inherit it through the environment.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import runpy
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, NoReturn

import click

from triton_ascend_compat import startup
from triton_ascend_compat.startup import progress


class _NotFound(click.ClickException):
    """There is nothing to run."""

    exit_code = 2


class _RunCommand(click.Command):
    """Everything behind SCRIPT or `-m MODULE` belongs to the program, options too, as with `python`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-m"):
            taken = 1 if len(args[0]) > 2 else 2
            args = [*args[:taken], "--", *args[taken:]]
        elif args and args[0] not in ctx.help_option_names:
            args = args if args[0].startswith("-") else ["--", *args]
        return super().parse_args(ctx, args)


@click.command(cls=_RunCommand, options_metavar="", short_help="Run a Python program with the shim on.")
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m` does.")
@click.argument("arguments", metavar="SCRIPT|-m MODULE [ARGS]...", nargs=-1, type=click.UNPROCESSED)
def command(module: str | None, arguments: tuple[str, ...]) -> None:
    """Run SCRIPT, or `-m MODULE`, as python would, with the shim on in it and in its child processes.

    The exit code is the program's own; 2 if there is nothing to run.
    """
    if module is None and not arguments:
        raise click.UsageError("name a SCRIPT or -m MODULE to run")
    if module is None:
        script, *rest = arguments
        program = _script(script, rest)
    else:
        program = _module(module, list(arguments))
    switch_on()
    _run(program)


def switch_on() -> None:
    """Switch the shim on for this process and, through the environment, for its children."""
    named = os.environ.get(startup.VARIABLE, "")
    if not startup.is_named(named):
        os.environ[startup.VARIABLE] = f"{named},{startup.PLUGIN}" if named.strip() else startup.PLUGIN
    if progress.find_startup_file() is None:
        inherited = os.environ.get("PYTHONPATH")
        entries = [str(Path(startup.__path__[0]).resolve() / "children"), *([inherited] if inherited else [])]
        os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    startup.start()


def _script(script: str, arguments: list[str]) -> Callable[[], Any]:
    path = Path(script)
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise _NotFound(f"{script} is a directory without a __main__.py")
    if not path.exists():
        raise _NotFound(f"no such script: {script}")
    if not os.access(path, os.R_OK):
        raise _NotFound(f"the script cannot be read: {script}")
    sys.argv = [script, *arguments]
    # runpy itself puts a directory or zip file on sys.path, but not the folder of a plain script.
    plain = pkgutil.get_importer(script) is None
    _replace_first_path_entry(str(path.resolve().parent) if plain else None)
    return lambda: runpy.run_path(script, run_name="__main__")


def _module(name: str, arguments: list[str]) -> Callable[[], Any]:
    sys.argv = [name, *arguments]  # runpy puts the module's file in place of the name
    _replace_first_path_entry(str(Path.cwd()))
    return lambda: _run_module(name)


def _run_module(name: str) -> None:
    for target in (name, f"{name}.__main__"):
        try:
            spec = importlib.util.find_spec(target)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # something that the module's package needs is missing, not the module
            spec = None
        if spec is None:
            what = "no such module" if target == name else "a package without a __main__ module"
            raise _NotFound(f"{what}: {name}")
        if spec.submodule_search_locations is None:
            break
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _replace_first_path_entry(entry: str | None) -> None:
    """Put `entry` where python puts the folder of what it runs, unless -I or -P asked for none."""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return
    sys.path[:1] = [] if entry is None else [entry]


def _run(program: Callable[[], Any]) -> None:
    try:
        program()
    except (SystemExit, _NotFound):
        raise
    except BaseException as error:
        _end_like_python(error)


def _end_like_python(error: BaseException) -> NoReturn:
    """Report an exception of the program without the frames of this command, and end with python's code."""
    traceback = _program_frames(error.__traceback__)
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
    sys.exit(128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1)


def _program_frames(traceback: TracebackType | None) -> TracebackType | None:
    ours = {__file__, runpy.__file__, "<frozen runpy>"}
    frame = traceback
    while frame is not None and frame.tb_frame.f_code.co_filename in ours:
        frame = frame.tb_next
    return frame or traceback
