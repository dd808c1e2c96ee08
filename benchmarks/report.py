"""The table of results: on a terminal, as Markdown, and between the markers in the READMEs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
COLUMNS = ("Measured", "Without", "With", "Cost", "Target", "Met")


@dataclass(frozen=True)
class Row:
    """One line of the table, all in words; `met` is whether the cost is within the target."""

    what: str
    without: str
    with_: str
    cost: str
    target: str
    met: bool

    def cells(self) -> tuple[str, ...]:
        return (self.what, self.without, self.with_, self.cost, self.target, "yes" if self.met else "no")


def machine() -> str:
    """What the figures were measured on."""
    triton = importlib.metadata.version("triton-ascend")
    return (
        f"triton-ascend {triton}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores; CPU time"
    )


def show(rows: list[Row]) -> None:
    table = Table(*COLUMNS, caption=machine(), caption_justify="left")
    for row in rows:
        table.add_row(*row.cells(), style=None if row.met else "bold")
    Console().print(table)


def markdown(rows: list[Row]) -> str:
    lines = [" | ".join(COLUMNS), " | ".join(["---"] * len(COLUMNS)), *(" | ".join(r.cells()) for r in rows)]
    return "\n".join(f"| {line} |" for line in lines) + f"\n\n{machine()}; `make bench`.\n"


def rewrite(readme: Path, text: str) -> bool:
    """Put `text` between the markers of `readme`; False where it has no such block, or is not there."""
    if not readme.is_file():
        return False
    before, begin, rest = readme.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return False
    readme.write_text(f"{before}{BEGIN}\n{text}{END}{after}", "utf-8")
    return True
