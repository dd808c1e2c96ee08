"""What the shim costs, each as a ratio or difference between alternating runs: see `make bench`.

Not tests: a target that is missed is shown as such, and the exit code stays 0.
"""

from __future__ import annotations

from pathlib import Path

import click
import launches
import processes
import report
import sources
from measuring import Comparison
from report import Row

ROOT = Path(__file__).resolve().parent.parent
READMES = ("README.md", "README.zh-CN.md")
SOURCES = 10_000


def by_ratio(what: str, found: Comparison, target: float) -> Row:
    return Row(
        what,
        f"{found.base * 1e6:.2f} µs",
        f"{found.other * 1e6:.2f} µs",
        f"× {found.ratio:.3f}",
        f"× {target}",
        round(found.ratio, 3) <= target,
    )


def by_difference(what: str, found: Comparison, target: float, unit: str = "µs") -> Row:
    scale = {"µs": 1e6, "ms": 1e3}[unit]
    without, with_ = round(found.base * scale, 2), round(found.other * scale, 2)
    cost = round(with_ - without, 2)
    return Row(
        what,
        f"{without:.2f} {unit}",
        f"{with_:.2f} {unit}",
        f"{cost:+.2f} {unit}",
        f"+{target:g} {unit}",
        cost <= target,
    )


def measure(effort: float) -> list[Row]:
    """All rows; `effort` scales the numbers of pairs."""

    def pairs(what: str, number: int) -> int:
        click.echo(f"measuring: {what}", err=True)
        return max(3, round(number * effort))

    rows = [
        by_difference(
            "Interpreter start, TRITON_PLUGIN unset, against a `.pth` file that does nothing",
            processes.interpreter_start(pairs("interpreter start", 600)),
            0.1,
            "ms",
        ),
        by_difference(
            "`import triton` in a fresh interpreter, shim on",
            processes.import_triton(pairs("import triton", 100)),
            4,
            "ms",
        ),
        by_difference(
            "Clean `ASTSource` and its hash, shim on", sources.clean_source(pairs("a clean source", 150)), 2
        ),
        by_difference(
            "Leaky `ASTSource`, its options and hash, against its clean twin",
            sources.leaky_source(pairs("a leaky source", 150), sources.LEAKED),
            12,
        ),
        by_difference(
            "`ASTSource` with an option that this release lacks, against its clean twin",
            sources.leaky_source(pairs("an absent option", 150), sources.ABSENT),
            10,
        ),
        by_difference(
            "`triton.compile`, found in the cache on disk, shim on",
            sources.cached_compile(pairs("a cache hit", 200)),
            20,
        ),
        by_difference(
            "Launch that parses its options (stand-in compile), one that this release lacks, against none",
            launches.cold_launch_with_absent_option(pairs("an absent option in a launch", 150)),
            10,
        ),
        by_ratio(
            "Launch of a kernel in memory (stand-in launcher), shim on",
            launches.hot_launch(pairs("a hot launch", 250)),
            1.01,
        ),
        by_ratio(
            "The same with an option that this release lacks, against one that it has, shim on",
            launches.hot_launch_with_absent_option(pairs("a hot launch, absent option", 250)),
            1.01,
        ),
    ]
    found = sources.on_threads(4, SOURCES, pairs("4 threads", 11))
    rows.append(by_ratio(f"{SOURCES:,} leaky sources, each, 4 threads against one", found, 1.2))
    kept = sources.memory_growth(SOURCES, warm_up=1000) / SOURCES
    rows.append(
        Row(
            f"Memory kept after {SOURCES:,} leaky sources, each",
            "",
            "",
            f"{kept:.1f} bytes",
            "1 byte",
            kept <= 1,
        )
    )
    return rows


@click.command()
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
@click.option("--readme", is_flag=True, help="Put the table into the marked block of the READMEs.")
@click.option("--effort", default=1.0, show_default=True, help="Scales the numbers of repetitions.")
def main(markdown: bool, readme: bool, effort: float) -> None:
    """Measure what the shim costs on this machine."""
    rows = measure(effort)
    if markdown:
        click.echo(report.markdown(rows), nl=False)
    else:
        report.show(rows)
    if readme:
        for name in READMES:
            done = report.rewrite(ROOT / name, report.markdown(rows))
            click.echo(f"{name}: {'rewritten' if done else 'has no marked block'}", err=True)


if __name__ == "__main__":
    main()
