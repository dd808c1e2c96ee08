"""The results of `check` as a page for a browser: one file that loads nothing and needs no script.

It is built as a tree and written by the standard library, which escapes whatever a text contains. How it
looks is in `page.html`, into which it is put.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Union
from xml.etree.ElementTree import Element, tostring

from triton_ascend_compat.checking import reports
from triton_ascend_compat.checking.jobs import Outcome
from triton_ascend_compat.checking.verdict import (
    DEFAULT_RULES,
    Rules,
    by_kernel,
    exit_code,
    failing,
    too_many,
)
from triton_ascend_compat.offline import findings
from triton_ascend_compat.offline.records import CompileRecord

Part = Union[str, Element]

_PAGE = Path(__file__).with_name("page.html")

#: How many items of a list are shown before the rest has to be unfolded.
_MOST_SHOWN = 8


def as_html(outcomes: Sequence[Outcome], rules: Rules = DEFAULT_RULES) -> str:
    """The page: the verdict, what failed, the kernels by chip and their configs, the options, the targets."""
    records = [record for outcome in outcomes for record in outcome.records]
    failed = failing(outcomes, rules)
    state, told = ("bad", "Failed") if exit_code(outcomes, rules) else ("good", "Passed")
    verdict = f"{told}: {reports.summary_line(outcomes, rules)}"
    computed = [line for each in outcomes if each.tally is not None for line in each.tally.lines()]
    parts = (
        _tag("p", verdict, class_=f"verdict {state}"),
        *(_tag("p", line, class_="soft") for line in computed or [reports.NOT_EXECUTED]),
        *_section("Failures", [*_failed_as_a_whole(outcomes, rules), *_failures(records, failed, rules)]),
        *_chips(records, failed),
        *_section("Options", _options(records)),
        *_section("Targets", _targets(outcomes, rules)),
    )
    body = "".join(tostring(part, encoding="unicode", method="html") for part in parts)
    body = body.replace("\n", "&#10;")  # so that no text begins a line, which a CI may read as a command
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(title=escape(verdict), body=body)


def _failed_as_a_whole(outcomes: Sequence[Outcome], rules: Rules) -> list[Element]:
    """Targets that failed, and kernels with too many specializations."""
    told = [line for each in outcomes for level, line in reports.remarks_on(each, rules) if level == "error"]
    told += too_many([record for outcome in outcomes for record in outcome.records], rules)
    return [_tag("article", _tag("p", line, class_="bad")) for line in told]


def _failures(records: Sequence[CompileRecord], failed: Collection[int], rules: Rules) -> list[Element]:
    """What is wrong with kernels: once for all configs and chips in which it is the same."""
    found: dict[tuple[str, str, str], list[CompileRecord]] = {}
    for record in records:
        told = [reports.error_of_many(record)] if id(record) in failed else []
        for text in (*told, *(reports.describe_keys(record) if rules.leaks_fail else ())):
            found.setdefault((record.kernel, reports.short(record.location), text), []).append(record)
    everything, articles = by_kernel(records), []
    for (kernel, where, text), those in found.items():
        in_which = [
            f"{key[2]}: {reports.which_configs(group, everything[key])}{reports.sizes_needed(group)}"
            for key, group in by_kernel(those).items()
        ]
        source, at = those[0].error_source or "", str(those[0].error_location).rpartition(":")[2]
        articles.append(
            _tag(
                "article",
                _tag("h3", _tag("code", kernel), " ", _tag("small", where)),
                _tag("p", text, class_="bad"),
                *([_tag("pre", _tag("span", at, class_="soft"), " ", source)] if source else []),
                _list(in_which),
                *_unfolded("The compiler's message", those[0].detail),
            )
        )
    return articles


def _chips(records: Iterable[CompileRecord], failed: Collection[int]) -> list[Element]:
    """A table for each chip, a row for each kernel; what did not compile stands first."""
    chips: dict[str, list[list[CompileRecord]]] = {}
    for (_, _, chip), group in by_kernel(records).items():
        chips.setdefault(chip, []).append(group)
    sections = []
    for chip, groups in chips.items():
        groups.sort(key=lambda group: all(record.ok for record in group))
        fine = sum(all(id(record) not in failed for record in group) for group in groups)
        caption = f"{fine} of {len(groups)} kernels compile"
        heads = ("Kernel", "Configs", "Specializations", "On-chip memory", "Time")
        sections += _section(
            chip, [_table(caption, heads, [_kernel(heads, each, failed) for each in groups])]
        )
    return sections


def _kernel(heads: Sequence[str], records: Sequence[CompileRecord], failed: Collection[int]) -> Element:
    """A row for the kernel, and one with its configs to unfold."""
    compiled, first = [record for record in records if record.ok], records[0]
    bad = any(id(record) in failed for record in records)
    state = "good" if len(compiled) == len(records) else "bad" if bad else "let"
    row = _row(
        heads,
        _tag("span", _tag("code", first.kernel), " ", _tag("small", reports.short(first.location))),
        _tag("span", f"{len(compiled)} of {len(records)}", class_=state),
        str(sum(found.count for found in findings.specializations(records))),
        _memory(records),
        f"{sum(record.milliseconds for record in records):,.0f} ms",
    )
    columns = ("Config", "Result", "On-chip memory", "Time")
    configs = [
        _row(
            columns,
            reports.describe_config(r.config),
            _result(r, failed),
            _memory([r]),
            f"{r.milliseconds:.0f} ms",
        )
        for r in records
    ]
    table = _table(f"Each config of {first.kernel}", columns, [_tag("tbody", *configs)])
    title = _tag("summary", f"{len(records)} config{'s' if len(records) > 1 else ''}")
    more = _tag("td", _tag("details", title, _list(reports.facts(records)), table), colspan=str(len(heads)))
    return _tag("tbody", row, _tag("tr", more, class_="more"))


def _result(record: CompileRecord, failed: Collection[int]) -> Element:
    """What became of a config: compiled or why not, which keys were misplaced, what the compilers noted."""
    text = (
        reports.describe_error(record) if not record.ok else "from the cache" if record.cached else "compiled"
    )
    state = "good" if record.ok else "bad" if id(record) in failed else "let"
    return _tag(
        "div", _tag("span", text, class_=state), _list([*reports.describe_keys(record), *record.notes])
    )


def _memory(records: Iterable[CompileRecord]) -> Element:
    """The most that any of the records uses of each memory."""
    most: dict[tuple[str, int], int] = {}
    for each in (memory for record in records for memory in record.memory):
        most[each.memory, each.available] = max(each.used, most.get((each.memory, each.available), 0))
    cell = _tag("div", "" if most else "-")
    for (name, there), used in most.items():
        bar = _tag("meter", value=str(used), max=str(there))
        cell.append(_tag("div", bar, f" {name} {used:,} of {there:,} bytes"))
    return cell


def _options(records: Iterable[CompileRecord]) -> list[Element]:
    """What was asked for: first what did not simply arrive."""
    heads = ("Option", "Values", "Became", "Kernels")
    found = sorted(reports.options_in_use(records), key=lambda row: bool(row["became"] == "delivered"))
    rows = [
        _row(heads, row["option"], _some(map(repr, row["values"])), row["became"], _some(row["kernels"]))
        for row in found
    ]
    return (
        [_table("What was asked for, and what became of it", heads, [_tag("tbody", *rows)])] if rows else []
    )


def _targets(outcomes: Iterable[Outcome], rules: Rules) -> list[Element]:
    heads, rows = ("Target", "Chip", "Launches", "What happened"), []
    for outcome in outcomes:
        remarks = _list(line for _, line in reports.remarks_on(outcome, rules))
        happened = _tag("div", remarks, *_unfolded("The end of its output", outcome.output))
        job = outcome.job
        rows.append(_row(heads, job.target.label, job.chip, f"{outcome.launches:,}", happened))
    return [_table("What was run", heads, [_tag("tbody", *rows)])] if rows else []


def _section(title: str, parts: Sequence[Element]) -> list[Element]:
    return [_tag("section", _tag("h2", title), *parts)] if parts else []


def _list(lines: Iterable[str]) -> Part:
    items = [_tag("li", line) for line in lines]
    return _tag("ul", *items) if items else ""


def _some(words: Iterable[str]) -> Element:
    listed = list(words)
    shown, more = ", ".join(listed[:_MOST_SHOWN]), listed[_MOST_SHOWN:]
    return _tag("div", shown, *_unfolded(f"{len(more)} more", ", ".join(more)))


def _unfolded(title: str, text: str | None) -> list[Element]:
    return [_tag("details", _tag("summary", title), _tag("pre", text))] if text else []


def _table(caption: str, heads: Iterable[str], bodies: Iterable[Element]) -> Element:
    head = _tag("thead", _tag("tr", *(_tag("th", each, scope="col") for each in heads)))
    return _tag("table", _tag("caption", caption), head, *bodies)


def _row(heads: Sequence[str], first: Part, *cells: Part) -> Element:
    """A table row; each cell has its column's head, which is shown where the screen is narrow."""
    more = [_tag("td", cell, data_label=head) for head, cell in zip(heads[1:], cells)]
    return _tag("tr", _tag("th", first, scope="row"), *more)


def _tag(name: str, /, *parts: Part, **attributes: str) -> Element:
    """An element; `class_` is the attribute `class`, `data_label` is `data-label`."""
    element = Element(name, {key.strip("_").replace("_", "-"): value for key, value in attributes.items()})
    for part in parts:
        if isinstance(part, Element):
            element.append(part)
        elif len(element):
            element[-1].tail = (element[-1].tail or "") + reports.clean(part, "\n")
        else:
            element.text = (element.text or "") + reports.clean(part, "\n")
    return element
