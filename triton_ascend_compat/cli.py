"""The command line: a click group whose subcommands are imported only when they are used."""

from __future__ import annotations

import importlib

import click

from triton_ascend_compat import __version__

#: Subcommand name -> module that defines it as `command`. Add a line here to add a subcommand.
COMMANDS = {
    "status": "triton_ascend_compat.commands.status",
    "demo": "triton_ascend_compat.commands.demo",
    "options": "triton_ascend_compat.commands.options",
    "explain": "triton_ascend_compat.commands.explain",
    "run": "triton_ascend_compat.commands.run",
    "check": "triton_ascend_compat.commands.check",
    "patch": "triton_ascend_compat.commands.patch",
}


class _LazyGroup(click.Group):
    """Imports a subcommand's module when it is asked for, so that `run` need not load what `demo` uses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="triton-ascend-compat")
def main() -> None:
    """Compatibility layer over Triton on Ascend NPUs: see what it does here, try it, run under it."""
