"""The results of `check` as a table, JSON, JUnit XML or annotations for GitHub; see `page`, too."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from triton_ascend_compat.checking.jobs import Outcome
from triton_ascend_compat.checking.verdict import (
    DEFAULT_RULES,
    Rules,
    by_kernel,
    failing,
    leaks,
    too_many,
)
from triton_ascend_compat.decision.plan import Fate
from triton_ascend_compat.decision.plan import Outcome as KeyOutcome
from triton_ascend_compat.offline import findings
from triton_ascend_compat.offline.records import CompileRecord, ConfigKey

NOT_EXECUTED = "Compiled only: nothing was executed or timed, and CANN's code generator did not run."

_FATES = {
    KeyOutcome.DELIVERED: "moved to the options from",
    KeyOutcome.IGNORED: "no option of this release, left out of",
    KeyOutcome.REFUSED: "refused in",
}

#: How many configs, values of a parameter, or lines of a target's output are listed.
_MOST_LISTED = 8


def clean(text: str, keep: str = "") -> str:
    """`text` without a character that a terminal, or a reader of lines, acts on: those are escaped."""
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text
    )


def describe_config(config: Mapping[str, Any]) -> str:
    """`XBLOCK=1024 num_stages=2`; `-` for a kernel that has nothing to configure."""
    return " ".join(f"{key}={clean(str(value))}" for key, value in config.items()) or "-"


def describe_error(record: CompileRecord) -> str:
    """What is wrong with a kernel that did not compile, in one line, with the config that would fit."""
    if record.overflow is None:
        where = f" (at {short(record.error_location)})" if record.error_location is not None else ""
        kind = "" if record.error_type is None or record.error_type in str(record.error) else _kind(record)
        return clean(f"{kind}{record.error}{where}")
    return f"{record.overflow}{_fits(record)}"


def describe_keys(record: CompileRecord) -> list[str]:
    """What became of each misplaced key, and which options the backend dropped; a phrase each."""
    told = [_describe_fate(fate) for fate in record.keys if not fate.quiet]
    told += [f"{key}={record.asked[key]!r}: dropped by the backend" for key in record.dropped]
    return list(map(clean, told))


def describe_outside(command: str) -> str:
    """A process in which nothing, or not all, could be recorded."""
    return clean(f"a child process ran outside of the check: {command}")


def describe_config_key(key: ConfigKey) -> str:
    """What became of a key of a config that was never launched."""
    return clean(f"triton.Config at {short(key.location)}, not launched: {_describe_fate(key.fate)}")


def _describe_fate(fate: Fate) -> str:
    return f"{fate.key}={fate.value!r}: {_FATES[fate.outcome]} the {fate.where.value}"


def summary(outcomes: Sequence[Outcome], rules: Rules = DEFAULT_RULES) -> dict[str, int]:
    """Counts over all outcomes."""
    records, failed = _all(outcomes), failing(outcomes, rules)
    return {
        "kernels": len({(record.kernel, record.location) for record in records}),
        "compiles": len(records),
        "failed": len(failed),
        "let_pass": sum(not record.ok and id(record) not in failed for record in records),
        "from_cache": sum(record.cached for record in records),
        "keys_moved": sum(len(record.keys_that_were(KeyOutcome.DELIVERED)) for record in records),
        "keys_ignored": sum(len(record.keys_that_were(KeyOutcome.IGNORED)) for record in records),
        "keys_refused": sum(len(record.keys_that_were(KeyOutcome.REFUSED)) for record in records),
        "options_dropped": sum(len(record.dropped) for record in records),
        "targets_failed": sum(outcome.failure is not None for outcome in outcomes),
        "targets_empty": sum(outcome.empty for outcome in outcomes),
    }


def summary_line(outcomes: Sequence[Outcome], rules: Rules = DEFAULT_RULES) -> str:
    """The counts that are not zero, in one line."""
    counts = summary(outcomes, rules)
    kernels, compiles = counts.pop("kernels"), counts.pop("compiles")
    told = [f"{compiles} compiles of {kernels} kernels", f"{counts.pop('failed')} failed"]
    told += [f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    return ", ".join(told)


def remarks_on(outcome: Outcome, rules: Rules) -> list[tuple[str, str]]:
    """What is to be said of a target as a whole: pairs of a level, "error" or "notice", and a line."""
    label, told = outcome.job.label, []
    if outcome.failure is not None:
        told.append(("error", f"{label} failed: {outcome.failure}"))
    if outcome.empty:
        level = "notice" if rules.allow_empty else "error"
        told.append(
            (level, f"{label}: nothing was compiled; it launched no kernel, or had TRITON_INTERPRET=1")
        )
    if outcome.stopped_at is not None:
        where = short(outcome.stopped_at)
        told.append(
            ("notice", f"{label} ended at {where}, where a kernel does not compile: the rest was not run")
        )
    told += [
        ("notice", f"{label} went on after the launch at {short(at)}, which failed") for at in outcome.went_on
    ]
    told += [("notice", f"{label}: {describe_outside(each)}") for each in outcome.outside]
    level = "error" if rules.leaks_fail else "notice"
    told += [(level, f"{label}: {describe_config_key(key)}") for key in outcome.config_keys]
    return [(level, clean(line)) for level, line in told]


def as_table(outcomes: Sequence[Outcome], rules: Rules = DEFAULT_RULES) -> str:
    """For people: each kernel, with a line for what is the same in many configs, and then the counts."""
    records, failed = _all(outcomes), failing(outcomes, rules)
    lines = []
    for (kernel, location, chip), group in by_kernel(records).items():
        lines += [f"{clean(kernel)}  {short(location)}  {chip}", *_of_kernel(group, failed), ""]
    told = [line for outcome in outcomes for _, line in remarks_on(outcome, rules)]
    told += map(clean, too_many(records, rules))
    lines += [*told, *([""] if told else []), summary_line(outcomes, rules)]
    tallies = [outcome.tally for outcome in outcomes if outcome.tally is not None]
    lines += [line for tally in tallies for line in tally.lines()] or [NOT_EXECUTED]
    return "\n".join(lines) + "\n"


def options_in_use(records: Iterable[CompileRecord]) -> list[dict[str, Any]]:
    """Each option that was asked for: its values, what became of it and in which kernels."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        became = dict.fromkeys(record.delivered, "delivered") | dict.fromkeys(record.dropped, "dropped")
        became |= {fate.key: f"{fate.outcome.value} ({fate.where.value})" for fate in record.keys}
        values = {**record.asked, **record.delivered, **{fate.key: fate.value for fate in record.keys}}
        for key, outcome in became.items():
            row = found.setdefault(
                (key, outcome), {"option": key, "became": outcome, "values": [], "kernels": []}
            )
            row["values"] += [values[key]] if values[key] not in row["values"] else []
            row["kernels"] += [record.kernel] if record.kernel not in row["kernels"] else []
    return [found[key] for key in sorted(found)]


def options_table(outcomes: Sequence[Outcome]) -> str:
    """The options in use, a line each, so that a move to another release can be judged."""
    lines = ["Options in use:"]
    for row in options_in_use(_all(outcomes)):
        values, kernels = _some(map(repr, row["values"])), _some(row["kernels"])
        lines.append(clean(f"  {row['option']}={values}: {row['became']}; in {kernels}"))
    return "\n".join(lines if len(lines) > 1 else ["Options in use: none"]) + "\n"


def as_json(outcomes: Sequence[Outcome], rules: Rules = DEFAULT_RULES, shard: str | None = None) -> str:
    """Everything that is known, for programs; `check --merge` reads it again."""
    records = _all(outcomes)
    return json.dumps(
        {
            "version": 2,
            "executed": any(outcome.tally is not None for outcome in outcomes),
            "shard": shard,
            "summary": summary(outcomes, rules),
            "options": options_in_use(records),
            "too_many_specializations": too_many(records, rules),
            "targets": [
                {
                    **{key: getattr(outcome.job.target, key) for key in ("kind", "name", "arguments")},
                    "target": outcome.job.target.label,
                    "chip": outcome.job.chip,
                    "hivm": outcome.job.hivm,
                    **{
                        key: getattr(outcome, key)
                        for key in ("failure", "empty", "stopped_at", "went_on", "outside", "tests_passed")
                    },
                    "config_keys": [key.as_dict() for key in outcome.config_keys],
                    "launches": outcome.launches,
                    "launches_not_executed": outcome.launches
                    - (outcome.tally.computed if outcome.tally is not None else 0),
                    "execution": outcome.tally.as_dict() if outcome.tally is not None else None,
                    "output": outcome.output,
                    "compiles": [
                        {**record.as_dict(), "ok": record.ok, "stage_reached": record.stage_reached}
                        for record in outcome.records
                    ],
                }
                for outcome in outcomes
            ],
        },
        indent=2,
    )


def as_junit(outcomes: Sequence[Outcome], rules: Rules = DEFAULT_RULES) -> str:
    """JUnit XML: a suite per target and chip, a test case per kernel and config, and one for the target."""
    root = ElementTree.Element("testsuites")
    for outcome in outcomes:
        suite = ElementTree.SubElement(root, "testsuite", name=clean(outcome.job.label))
        failed = failing([outcome], rules)
        for record in outcome.records:
            _junit_case(suite, record, id(record) in failed, rules)
        for line in too_many(outcome.records, rules):
            case = ElementTree.SubElement(suite, "testcase", classname="kernel", name="specializations")
            ElementTree.SubElement(case, "failure", message=clean(line))
        case = ElementTree.SubElement(
            suite, "testcase", classname="target", name=clean(outcome.job.target.label)
        )
        for level, line in remarks_on(outcome, rules):
            if level == "error":
                ElementTree.SubElement(case, "error", message=line)
        told = [line for level, line in remarks_on(outcome, rules) if level != "error"]
        ElementTree.SubElement(case, "system-out").text = "\n".join([*told, clean(outcome.output, "\n\t")])
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("errors", str(len(suite.findall("testcase/error"))))
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _junit_case(suite: ElementTree.Element, record: CompileRecord, failed: bool, rules: Rules) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=short(record.location),
        name=f"{clean(record.kernel)}[{describe_config(record.config)}]",
        time=f"{record.milliseconds / 1e3:.3f}",
    )
    remarks = [*describe_keys(record), *map(clean, record.notes)]
    if not record.ok:
        kind = "failure" if failed else "skipped"
        failure = ElementTree.SubElement(
            case, kind, message=describe_error(record), type=clean(str(record.error_type))
        )
        failure.text = clean(record.detail or "", "\n\t")
    elif rules.leaks_fail and leaks(record):
        ElementTree.SubElement(case, "failure", message="; ".join(remarks), type="misplaced option")
    if remarks:
        ElementTree.SubElement(case, "system-out").text = "\n".join(remarks)


def as_github(outcomes: Sequence[Outcome], rules: Rules = DEFAULT_RULES) -> str:
    """Workflow commands: an annotation at the kernel's line for all configs that fail, or leak, alike."""
    lines, failed = [], failing(outcomes, rules)
    for (kernel, location, chip), records in by_kernel(_all(outcomes)).items():
        told: dict[tuple[str, str, str, str | None], list[CompileRecord]] = {}
        for record in records:
            notes = [
                (describe, "warning", "misplaced compile options", location)
                for describe in describe_keys(record)
            ]
            if not record.ok:
                level, at = "error" if id(record) in failed else "notice", record.error_location or location
                notes.append((error_of_many(record), level, "does not compile for Ascend", at))
            else:
                notes += [
                    (clean(n), "notice", "compiled otherwise than asked", location) for n in record.notes
                ]
            for note in notes:
                told.setdefault(note, []).append(record)
        for (text, level, title, at), those in told.items():
            text = f"{clean(kernel)} [{which_configs(those, records)}] on {chip}: {text}{sizes_needed(those)}"
            lines.append(_annotation(level, title, text, at))
    for outcome in outcomes:
        lines += [
            _annotation(level, "target failed" if level == "error" else "target", line, None)
            for level, line in remarks_on(outcome, rules)
        ]
    lines += [_annotation("error", "specializations", line, None) for line in too_many(_all(outcomes), rules)]
    lines.append(summary_line(outcomes, rules))
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _of_kernel(records: Sequence[CompileRecord], failed: Collection[int]) -> list[str]:
    """The lines of one kernel: what became of its configs, and what there is to say of them."""
    states: dict[str, list[CompileRecord]] = {}
    remarks: dict[str, list[CompileRecord]] = {}
    for record in records:
        state = "ok (cache)" if record.cached else "ok"
        if not record.ok:
            fine = "ruled out" if record.tuning is not None else "expected"
            state = f"{'FAILED' if id(record) in failed else fine} {error_of_many(record)}"
        states.setdefault(state, []).append(record)
        for remark in (*describe_keys(record), *map(clean, record.notes)):
            remarks.setdefault(remark, []).append(record)
    lines = []
    for state, those in states.items():
        spent = sum(record.milliseconds for record in those)
        lines.append(f"  {which_configs(those, records)}  {spent:6.0f} ms  {state}{sizes_needed(those)}")
    for remark, those in remarks.items():
        which = "" if len(those) == len(records) else f" [{which_configs(those, records)}]"
        lines.append(f"    {remark}{which}")
    return lines + [f"    {line}" for line in facts(records)]


def facts(records: Sequence[CompileRecord]) -> list[str]:
    """What there is to say of a kernel as a whole, a line each: specializations, options, memory, tuning."""
    return [*_varied(records), *_options(records), *_memory(records), *_vain(records)]


def which_configs(those: Sequence[CompileRecord], records: Sequence[CompileRecord]) -> str:
    """Which of the configs of a kernel: what differs in them, of many what they have in common."""
    keys = [key for record in records for key in record.config]
    differ = [key for key in dict.fromkeys(keys) if len({repr(r.config.get(key, "-")) for r in records}) > 1]
    if not differ:
        told = describe_config(records[0].config)
        return told if len(those) == 1 else f"{told} ({len(those)} times)"
    if len(those) == len(records) > _MOST_LISTED:
        return f"all {len(those)}: {' '.join(_values(key, those) for key in differ)}"
    different = list(dict.fromkeys(describe_config({k: r.config.get(k, "-") for k in differ}) for r in those))
    if len(different) <= 2:
        return ", ".join(different)
    sets = [{repr(record.config.get(key, "-")) for record in those} for key in differ]
    whole = math.prod(map(len, sets)) == len(different)
    told = " ".join(_values(key, those) for key in differ) if whole else _some(different, ", ")
    return f"{len(those)} of {len(records)}: {told}"


def _values(key: str, records: Iterable[CompileRecord]) -> str:
    return f"{key}={_some(dict.fromkeys(clean(str(record.config.get(key, '-'))) for record in records))}"


def _some(words: Iterable[str], separator: str = ",") -> str:
    listed = list(words)
    more = len(listed) - _MOST_LISTED
    return separator.join(listed[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def error_of_many(record: CompileRecord) -> str:
    """The error, without the sizes in which the configs of one kernel differ: `sizes_needed` has those."""
    return describe_error(record) if record.overflow is None else f"{record.overflow.memory} overflow"


def sizes_needed(records: Sequence[CompileRecord]) -> str:
    """What `error_of_many` leaves out."""
    found = [record.overflow for record in records if record.overflow is not None]
    if not found:
        return ""
    needed = " to ".join(dict.fromkeys(str(f(each.needed for each in found)) for f in (min, max)))
    return f": needs {needed} bits, {found[0].available} available{_fits(records[0])}"


def _fits(record: CompileRecord) -> str:
    return f"; of what was tried, this fits: {describe_config(record.fits)}" if record.fits else ""


def _kind(record: CompileRecord) -> str:
    return f"{record.error_type}: " if "Assert" in str(record.error_type) else ""


def _varied(records: Sequence[CompileRecord]) -> list[str]:
    """How many specializations a kernel has, and what makes the difference."""
    return [
        f"{found.count} specializations: {clean('; '.join(found.varied))}"
        for found in findings.specializations(records)
        if found.count > 1
    ]


def _options(records: Sequence[CompileRecord]) -> list[str]:
    """The options that were delivered and are not told as part of the config."""
    rows = [{k: v for k, v in r.delivered.items() if k not in r.config} for r in records if r.delivered]
    same = [k for k in (rows[0] if rows else {}) if all(k in row and row[k] == rows[0][k] for row in rows)]
    return [f"delivered, as is the default: {describe_config({k: rows[0][k] for k in same})}"] if same else []


def _memory(records: Sequence[CompileRecord]) -> list[str]:
    """On-chip memory used and available."""
    found = [memory for record in records for memory in record.memory]
    lines = []
    for name, available in dict.fromkeys((memory.memory, memory.available) for memory in found):
        used = [memory.used for memory in found if (memory.memory, memory.available) == (name, available)]
        most = f"{min(used):,} to {max(used):,}" if min(used) != max(used) else f"{used[0]:,}"
        lines.append(f"{name}: {most} of {available:,} bytes used")
    return lines


def _vain(records: Sequence[CompileRecord]) -> list[str]:
    """Candidates of a tuner that are one kernel, and why."""
    told = []
    for found in findings.vain(records):
        why = f"{', '.join(found.differ)} {'left out' if found.left_out else 'without effect'}"
        told.append(
            f"tuning in vain: {len(found.configs)} candidates are one kernel: "
            + clean(why if found.differ else "the same config")
        )
    return list(dict.fromkeys(told))


def _annotation(level: str, title: str, message: str, location: str | None) -> str:
    fields = [f"title={_escaped(title, ',:')}"]
    if location is not None:
        file, _, line = location.rpartition(":")
        fields[:0] = [f"file={_escaped(_relative(file), ',:')}", f"line={line}"]
    return f"::{level} {','.join(fields)}::{_escaped(clean(message, chr(10)))}"


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def short(location: str | None) -> str:
    """`file:line` from the folder of the project; `-` for None."""
    if location is None:
        return "-"
    file, _, line = location.rpartition(":")
    return f"{_relative(file)}:{line}"


def _relative(file: str) -> str:
    base = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    try:
        return clean(str(Path(file).resolve().relative_to(base)))
    except ValueError:
        return clean(file)


def _all(outcomes: Iterable[Outcome]) -> list[CompileRecord]:
    return [record for outcome in outcomes for record in outcome.records]
