"""How traces and results show themselves in notebooks: exact, small, and nothing in them executes."""

import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis.trace import Trace, conform
from kernelscope.analysis.trace.notebook import Shown
from tests.places import ROOT

DATA = ROOT / "tests" / "data"
HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[31m\x00",
    "\u202egnp.exe",
    "'\"><img src=x onerror=alert(2)>",
    "A" * 10_000,
    "$\\frac{a}{b}$",
]


class Cells(HTMLParser):
    """The texts of cells, row by row, and the elements that there are."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.text = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        assert {name for name, _ in attributes} <= {"class", "style"}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        self.text.append(data)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def trace():
    return ks.read(DATA / "pytorch/lenet-train/operators.pt.trace.json.gz")


def number(text):
    return int(text.replace(",", ""))


def test_a_trace_shows_its_tables(trace):
    page = Cells(trace._repr_html_())
    shown = {row[0]: number(row[1]) for row in page.rows[1:]}
    assert repr(trace).startswith(f"<Trace: {len(trace.ranges)} ranges, ")
    assert shown == {name: len(table) for name, table in vars(trace).items() if isinstance(table, pd.DataFrame) and len(table)}


@pytest.mark.parametrize("by", ["operator", "kernel", "layer"])
def test_a_breakdown_adds_up_as_shown(by, trace):
    found = ks.breakdown(trace, by)
    page = Cells(found._repr_html_())
    ns = [number(row[1]) for row in page.rows[1:]]
    assert sum(ns[:-1]) == ns[-1] == found.step_ns
    assert ns[0] == found.table["time_ns"].iloc[0]
    assert len(page.rows) <= 15


def test_results_show_themselves_and_stay_plain_data():
    compared, explained = (json.loads((DATA / f"reports/{name}.json").read_text()) for name in ("compare", "explain"))
    page = Cells(Shown(compared)._repr_html_())
    assert [row[0] for row in page.rows[1:]] == [
        row["framework"] for row in sorted(compared["summary"], key=lambda row: row["step_median_ns"])
    ]
    page = Cells(Shown(explained)._repr_html_())
    ns = [number(row[1]) for row in page.rows[1:]]
    assert sum(ns[:-1]) == ns[-1] == explained["wall_delta_ns"]
    assert json.loads(json.dumps(Shown(explained))) == explained == Shown(explained)
    assert repr(Shown(explained)).startswith("<kernelscope/explain/1: schema, a, b, ")
    assert len(repr(Shown(explained))) < 1000
    assert Cells(Shown(schema="<b>")._repr_html_()).tags == {"div", "p", "b"}


def test_nothing_hostile_gets_out():
    rows = pd.DataFrame(
        {"start_ns": range(6), "end_ns": range(10, 16), "duration_ns": 10, "count": 1, "name": HOSTILE, "device": "cuda:0"}
    )
    trace = Trace(
        kernels=conform("kernels", rows), info={"framework": HOSTILE[0], "warnings": HOSTILE}, diagnostics={HOSTILE[0]: 1}
    )
    compared, explained = (json.loads((DATA / f"reports/{name}.json").read_text()) for name in ("compare", "explain"))
    compared["summary"][0]["framework"] = compared["network"]["name"] = HOSTILE[0]
    compared["explanations"] = [explained]
    explained["findings"][0]["title"] = explained["b"]["name"] = HOSTILE[3]
    for shown in (trace, ks.breakdown(trace, "kernel"), Shown(compared), Shown(explained)):
        text = shown._repr_html_()
        page = Cells(text)
        assert page.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
        assert "".join(page.text).isprintable()
        assert not re.search("A{201}", text)
        assert len(text) < 10_000
