"""One module a subcommand; each defines `command`, a click command. `cli.COMMANDS` lists them."""
