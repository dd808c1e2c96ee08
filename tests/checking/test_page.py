"""The page of `check --format html`: whole, escaped, and without anything to load or to run."""

from __future__ import annotations

import dataclasses
from collections import Counter
from html.parser import HTMLParser

import pytest

from tests.checking.test_reports import ALL, LEAKY, ODD, OVERFLOWED, RETRIED, outcome, record
from triton_ascend_compat.checking import reports
from triton_ascend_compat.checking.jobs import Outcome
from triton_ascend_compat.checking.page import as_html
from triton_ascend_compat.checking.verdict import Rules
from triton_ascend_compat.offline.records import Memory

VOID = {"meta"}
HOSTILE = "<script>alert(1)</script><img src=https://a.b/c onerror='x'>&lt;\"' $title"


class Reader(HTMLParser):
    """Reads a page, and refuses one whose elements are not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        self.attributes += attributes
        self.texts.setdefault(tag, []).append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    @property
    def text(self) -> str:
        return self.texts["body"][0]


def read(outcomes: list[Outcome], rules: Rules = Rules()) -> Reader:  # noqa: B008
    return Reader(as_html(outcomes, rules))


def test_a_kernel_compiles_though_a_config_was_ruled_out() -> None:
    ruled_out = dataclasses.replace(OVERFLOWED, tuning="1")
    page = read([outcome(record(tuning="1"), ruled_out, dataclasses.replace(OVERFLOWED, kernel="sub"))])
    assert page.texts["caption"][0] == "1 of 2 kernels compile"


def test_the_verdict_then_the_failures_then_the_kernels() -> None:
    page = read(ALL)
    assert page.texts["title"] == ["Failed: " + reports.summary_line(ALL)]
    assert page.texts["h2"] == ["Failures", "Ascend910B2", "Options", "Targets"]
    target, kernel = page.texts["article"]
    assert "ValueError: no at bench.py:3" in target
    assert "add kernels.py:12" in kernel
    assert "needs 20 bits, 15 available; of what was tried, this fits: XBLOCK=64" in kernel
    assert r"ub overflow\x00 <text> & more" in kernel
    assert page.texts["caption"][0] == "0 of 1 kernels compile"
    assert reports.NOT_EXECUTED in page.text


def test_it_says_what_the_table_says() -> None:
    records = [dataclasses.replace(each, memory=(Memory("UB", 1024, 196608),)) for each in (LEAKY, RETRIED)]
    records.append(record(signature={"x": "*fp16"}))
    page = read([outcome(*records)])
    assert page.texts["title"][0].startswith("Passed: 3 compiles")
    told = ["waves_per_eu=2: dropped by the backend", *RETRIED.notes, "UB 1,024 of 196,608 bytes"]
    told += ["2 specializations: x: *fp32, *fp16", "the end of its output"]
    assert [text for text in told if text not in page.text] == []
    assert ("value", "1024") in page.attributes


def test_the_line_at_fault_is_shown() -> None:
    at = {"error": "no", "error_type": "E", "error_location": "/a/b.py:48", "error_source": "x = y < z"}
    page = read([outcome(record(**at))])
    assert "48 x = y < z" in page.texts["pre"]
    assert "/a/b.py:48" in page.text


def test_the_same_failure_on_two_chips_is_told_once() -> None:
    other = dataclasses.replace(OVERFLOWED, chip="Ascend910_9589")
    (article,) = read([outcome(OVERFLOWED, other)]).texts["article"]
    assert "Ascend910B2: XBLOCK=128" in article
    assert "Ascend910_9589: XBLOCK=128" in article


def test_rules_decide_what_is_a_failure() -> None:
    one = outcome(dataclasses.replace(LEAKY, signature={"x": "*fp16"}), RETRIED)
    assert "article" not in read([one]).texts
    told = "".join(read([one], Rules(leaks_fail=True, most_specializations=1)).texts["article"])
    assert "multibuffer=False: moved to the options from the constants" in told
    assert "has 2 specializations" in told


@pytest.mark.parametrize("text", [HOSTILE, ODD])
def test_no_text_becomes_markup(text: str) -> None:
    odd = record(
        config={text: text}, error=text, error_type=text, error_location=f"{text}:1", error_source=text
    )
    odd = dataclasses.replace(odd, detail=text, notes=(text,), kernel=text, location=f"{text}:1", chip=text)
    odd = dataclasses.replace(odd, memory=(Memory(text, 1, 2),), asked={text: text})
    whole = dataclasses.replace(outcome(odd, failure=text), output=text, outside=(text,))
    page, plain = read([whole]), read(ALL)
    assert page.seen.keys() <= plain.seen.keys() | {"meter"}
    assert {name for name, _ in page.attributes} <= {name for name, _ in plain.attributes} | {"value", "max"}
    for tag in ("h2", "h3", "pre", "li", "th", "caption", "td", "p"):
        assert any(
            reports.clean(text) in told or reports.clean(text, "\n") in told for told in page.texts[tag]
        ), tag


def test_it_loads_nothing_and_runs_nothing() -> None:
    page = read(ALL)
    assert not page.seen.keys() & {"script", "link", "img", "iframe", "object", "base", "a", "form"}
    names = {name for name, _ in page.attributes}
    assert not names & {"src", "href", "srcset", "action", "style"}
    assert not any(name.startswith("on") for name in names)
    assert not any(word in page.texts["style"][0] for word in ("url(", "@import", "http"))
    assert ("lang", "en") in page.attributes


def test_nothing_and_very_much() -> None:
    assert "0 compiles of 0 kernels" in read([]).text
    assert "nothing was compiled" in read([outcome()]).texts["article"][0]
    many = [record(kernel=f"kernel_{n}", config={"XBLOCK": n}) for n in range(1000)]
    page = read([outcome(*many)])
    assert page.texts["summary"].count("1 config") == 1000
    wide = read([outcome(*(dataclasses.replace(each, kernel="one") for each in many))])
    assert "1000 configs" in wide.texts["summary"]
