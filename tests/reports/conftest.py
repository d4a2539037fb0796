"""A real comparison of four frameworks (LeNet-5, kernels cut to seven), and what a hostile trace makes of it."""

import copy
import importlib.resources
import itertools
import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.conftest import BROWSERS

DATA = Path(__file__).parents[1] / "data" / "reports" / "compare.json"

HOSTILE = (
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m\x07\x00\x9b2J[bold]x[/bold]",
    '=HYPERLINK("http://example.org","x")',
    "$\\frac{a}$ \u202egnp.exe \ud800",
    "A" * 10_000,
    "'\"><img src=x onerror=alert(2)>",
    "`x` | pipe\nnew line\r\n",
    "]]>&amp;{{7*7}}{% raw %}",
    " @SUM(A1)",
    "",
)


VOID = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """Checks that elements close in order, and gathers what the tests ask for."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.rows, self.cell = [], [], [], [], None
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attributes]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = []

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.rows[-1].append(" ".join("".join(self.cell).split()))
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell.append(data)


@pytest.fixture
def parse():
    """The parser of pages: text -> Page."""
    return Page


@pytest.fixture(scope="session")
def axe():
    """The text of axe.min.js, from the package that ships it."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed (extra dev)")
    return importlib.resources.files(package).joinpath("axe.min.js").read_text(encoding="utf8")


@pytest.fixture(scope="module")
def chromium():
    """Chromium, driven by Playwright while a module's tests run: not longer, as asyncio.run fails in this thread meanwhile."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra dev)")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def result():
    return json.loads(DATA.read_text())


@pytest.fixture
def hostile(result):
    """The comparison with hostile text in every place where a trace, a framework or a user puts text."""
    changed = copy.deepcopy(result)
    names = iter(HOSTILE * 1000)
    for table, keys in (("layers", ("layer",)), ("kinds", ("kind",))):
        for row in changed[table]:
            if row[keys[0]] != "(profiling overhead)":
                row.update({key: next(names) for key in keys})
    for rows in changed["kernels"].values():
        for row in rows:
            row.update({key: next(names) for key in row if isinstance(row[key], str)})
    for part in changed["lines"].values():
        for row in part["rows"]:
            row.update({key: next(names) for key in ("file", "function", "text")})
    for row in changed["fairness"]["rows"]:
        row.update(check=next(names), detail=next(names), value=next(names), status="fail")
    changed["fairness"]["differences"] = [{"setting": name, "values": {"pytorch": name, "cntk": [name]}} for name in HOSTILE]
    for name in ("methods", "settings", "versions"):
        changed[name] = {framework: {text: text for text in HOSTILE} for framework in result["frameworks"]}
    changed["left_out"] = [{"framework": name, "reason": name} for name in HOSTILE]
    changed["command"] = ["kernelscope", *HOSTILE]
    changed["network"].update(name=HOSTILE[0], title=HOSTILE[1])
    for key in ("conditions", "created", "kernelscope", "mode", "device"):
        changed[key] = HOSTILE[0]
    changed["passes"][-1] = {"framework": "cntk", "pass": "lines", "step_median_ns": None, "reason": HOSTILE[1]}
    return changed


@pytest.fixture
def sparse(result):
    """The comparison with everything null that may be null: nothing was known but step times."""
    changed = copy.deepcopy(result)
    for row in changed["summary"]:
        for key in row:
            if key not in ("framework", "step_median_ns", "step_mean_ns", "step_quartiles_ns", "steps", "repeats", "ratio"):
                row[key] = None
    for row in changed["layers"] + changed["kinds"]:
        row["ratio"] = dict.fromkeys(row["ratio"])
    changed["kernels"] = {name: [] for name in result["frameworks"]}
    changed["lines"] = {
        name: {"unavailable": "no host lines: line_profiler is missing", "rows": []} for name in result["frameworks"]
    }
    changed["fairness"] = {"failed": False, "reference": None, "rows": [], "differences": []}
    changed["passes"] = [row for row in result["passes"] if row["pass"] == "clean"]
    for name in ("methods", "settings", "versions", "diagnostics"):
        changed[name] = {framework: {} for framework in result["frameworks"]}
    changed["machine"] = {}
    return changed


@pytest.fixture
def explained():
    """An explanation as analysis.explain gives it."""
    return json.loads((DATA.parent / "explain.json").read_text())


@pytest.fixture
def hostile_explained(explained):
    """The explanation with hostile text in every place where a capture, a framework or a user puts text."""
    changed = copy.deepcopy(explained)
    names = itertools.cycle(HOSTILE)
    for side in ("a", "b"):
        changed[side].update(name=next(names), path=next(names), version=next(names))
        changed["missing"][side] = {next(names): next(names) for _ in range(4)}
    for part in changed["parts"]:
        part["part"] = next(names)
    for row in changed["rows"]:
        row.update({key: next(names) for key in ("layer", "phase", "cell", "layer_a", "layer_b")})
    for finding in changed["findings"]:
        finding.update({key: next(names) for key in ("cause", "title", "confidence", "remedy")}, evidence=[*HOSTILE])
    for match in changed["matches"]:
        match.update(a=[next(names)], b=[next(names)], how=next(names), note=next(names), label=next(names))
    changed["differences"] = [{"setting": name, "a": name, "b": [name]} for name in HOSTILE]
    changed.update(notes=[*HOSTILE], differs=[*HOSTILE], abstained=HOSTILE[1], to_find_out=HOSTILE[0], network=HOSTILE[0])
    return changed
