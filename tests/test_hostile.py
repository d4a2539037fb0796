"""Traces whose names are made to break whatever shows them: imported, and driven through every output that there is.

What must hold of each: nothing fails, nothing of a name is markup, formula, escape sequence or script, and no number is lost.
"""

import csv
import io
import json
import os
import pty
import re
import select
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import openpyxl
import pyarrow.parquet as pq
import pytest

from kernelscope.analysis.recordings.imported import Imported
from kernelscope.cli import main
from kernelscope.reports.figures import STYLES, files, gathered

NAMES = (
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "'\"><img src=x onerror=\"document.title='owned'\">",
    "javascript:document.title='owned'",
    "{{7*7}}{% raw %}${7*7}",
    '=HYPERLINK("http://example.org","x")',
    "@SUM(A1)",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "\t=1+1",
    "\r=1+1",
    "A" * 10_000,
    "\u202egnp.exe\u2066 \u200b",
    "\x1b[31mred\x1b[2J\x1b]0;owned\x07\x9b31m",
    "null \x00 byte \x08",
    "]]>&amp;<!--<b>",
    "| a `x` | **b** [c](javascript:1) @everyone #1\n\n# d\n```",
    "$\\frac{a}$ 100% %s \\n",
    "[bold red]x[/bold red] :smile:",
    "../../etc/passwd",
)
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\u2066\ud800-\udfff]")
STEPS = 3
TABLES = ("table", "csv", "markdown", "json")


def event(name, category, start_us, length_us, thread, **arguments):
    return {
        "ph": "X", "name": name, "cat": category, "ts": start_us, "dur": length_us, "pid": 1, "tid": thread, "args": arguments,
    }  # fmt: skip


def capture(path, busy_us=100):
    """Write a torch.profiler trace in which every text is hostile: each name is an operator's, a range's and a kernel's."""
    events, number = [], 0
    for step in range(STEPS):
        start = 1000 + 100_000 * step
        events.append(event(f"ProfilerStep#{step}", "user_annotation", start, (busy_us + 30) * len(NAMES) + 50, 10))
        for place, name in enumerate(NAMES):
            at, number = start + 10 + place * (busy_us + 30), number + 1
            events += [
                event(name, "user_annotation", at, busy_us + 25, 10),
                event(
                    name, "cpu_op", at + 1, busy_us + 20, 10, **{"External id": number, "Input type": [name], "Input Dims": [[2]]}
                ),
                event("cudaLaunchKernel", "cuda_runtime", at + 2, 2, 10, correlation=number),
                event(name, "kernel", at + 10, busy_us, 7, correlation=number, device=0, stream=7),
            ]
    events.append({"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": NAMES[0]}})
    events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": 10, "args": {"name": NAMES[13]}})
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": NAMES[0]}], "traceEvents": events}
    path.write_text(json.dumps(trace))
    return path


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return capture(folder / "<b>a\x1b[31m.json"), capture(folder / "=1+1,b.json", 150)


@pytest.fixture(scope="module")
def imported(captures):
    folder = captures[0].parent / "imported"
    assert main.main(["import", str(captures[0]), "-o", str(folder)]) == 0
    return folder


@pytest.fixture
def said(capsys):
    """Run a command that must succeed and return what it printed."""

    def run(*arguments):
        capsys.readouterr()
        status = main.main([*map(str, arguments)])
        out, err = capsys.readouterr()
        assert status == 0, err
        assert not HIDDEN.search(err)
        return out

    return run


def harmless(text):
    """Check that text for reading holds no markup of a name and nothing that a terminal would act on or that hides."""
    assert not HIDDEN.search(text), HIDDEN.search(text)
    assert "A" * 1000 not in text, "long names are cut where people read"


def check_csv(text):
    """Check that no cell is a formula, that rows are whole, and return them."""
    rows = list(csv.reader(io.StringIO(text)))
    assert len({len(row) for row in rows}) == 1
    for cell in (cell for row in rows for cell in row):
        number = re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", cell)
        assert number or not cell.lstrip(" '\"\xa0").startswith(("=", "+", "-", "@", "\t", "\r")) or cell.startswith("'")
        assert not HIDDEN.search(cell)
    return rows


def check_markdown(text):
    """Check that names are only text: no HTML, no heading, no code and no cell of theirs."""
    harmless(text)
    assert "<" not in re.sub(r"</?(?:details|summary|br|sub|sup)>", "", text)
    assert not re.search(r"(?m)^# d", text)
    assert "](javascript" not in text
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")]
    tables = [list(group) for group in re.split(r"\n(?!\|)", text) if group.lstrip().startswith("|")]
    assert widths, tables


CHECKS = {"table": harmless, "csv": check_csv, "markdown": check_markdown, "json": json.loads}


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("by", ["kernel", "operator", "range"])
def test_breakdowns(captures, said, form, by):
    CHECKS[form](said("breakdown", captures[0], "--by", by, "--format", form))


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("command", ["device", "roofline", "report"])
def test_tables(captures, imported, said, form, command):
    more = {"device": ["--table", "overlap"]}.get(command, [])
    path = imported if command == "report" else captures[0]
    CHECKS[form](said(command, path, *more, "--format", form))


@pytest.mark.parametrize("form", TABLES)
def test_classify(said, form):
    """Names that somebody typed are shown whole."""
    names = [name for name in NAMES if "\x00" not in name and len(name) < 200]
    CHECKS[form](said("classify", "--format", form, "--", *names))


def test_a_gate(captures, said, tmp_path):
    junit, comment = tmp_path / "gate.xml", tmp_path / "gate.md"
    harmless(said("gate", *captures, "--max-regression", "0%", "--allow-undecided", "--junit", junit, "--markdown", comment))
    check_markdown(comment.read_text())
    content = junit.read_text()
    assert not HIDDEN.search(content)
    suite = ElementTree.fromstring(content)
    assert {element.tag for element in suite.iter()} == {"testsuite", "properties", "property", "testcase", "skipped"}


class Markup(HTMLParser):
    """Gathers what a browser would run, fetch or follow."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.found = 0, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.scripts += tag == "script"
        self.found += [tag] if tag in ("img", "iframe", "object", "embed", "form", "b") else []
        self.found += [name for name in given if name.startswith("on")]
        links = [given[name] or "" for name in ("href", "src", "xlink:href") if name in given]
        self.found += [link for link in links if not link.startswith(("#", "https://", "data:,"))]

    handle_startendtag = handle_starttag


@pytest.fixture(scope="module")
def page(imported):
    """The page of the capture."""
    target = imported.parent / "capture.html"
    assert main.main(["report", str(imported), "-o", str(target)]) == 0
    return target


def test_a_page_holds_names_as_text_only(page):
    text = page.read_text(encoding="utf8")
    markup = Markup(text)
    assert markup.found == []
    assert f"<script>{NAMES[0][8:]}" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    ours, data = text.count("'sha256-"), text.count('type="application/json"')
    assert markup.scripts == ours + data, "each script is one that the page's policy knows, or data"


@pytest.mark.slow
def test_nothing_runs_in_a_browser(page, browse):
    document, console = browse(page)
    assert console == []
    assert "data-tables=" in document, "the page's own script ran"
    assert "<title>owned" not in document
    assert Markup(document).found == []


def test_figures(imported, tmp_path):
    drawn = gathered.of_capture(Imported(imported).breakdowns())
    files.write({"by_kernel": drawn["by_kernel"]}, tmp_path, STYLES["paper"])
    drawings = sorted(tmp_path.glob("*.svg"))
    assert drawings
    for drawing in drawings:
        content = drawing.read_text(encoding="utf8")
        assert not HIDDEN.search(content)
        for element in ElementTree.fromstring(content).iter():
            assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "image", "a")
            assert not any(name.lower().startswith("on") for name in element.attrib)
            links = [value for name, value in element.attrib.items() if name.rpartition("}")[2] == "href"]
            assert all(link.startswith("#") for link in links)
    assert all(path.read_bytes().startswith(b"%PDF") for path in tmp_path.glob("*.pdf"))
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.glob("*.png"))


def test_exported_csv(imported, said, tmp_path):
    said("export", imported, "--format", "csv", "-o", tmp_path / "csv")
    files = sorted((tmp_path / "csv").glob("*.csv"))
    found = {file.stem: check_csv(file.read_bytes().decode()) for file in files}
    assert len(found["kernels"]) == 1 + STEPS * len(NAMES)
    assert all(file.resolve().parent == tmp_path / "csv" for file in files)


def test_exported_workbook(imported, said, tmp_path):
    said("export", imported, "--format", "xlsx", "-o", tmp_path / "a.xlsx")
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert "f" not in {cell.data_type for cell in cells}, "no formulas"
    assert not any(cell.hyperlink for cell in cells)
    assert all(len(str(cell.value)) <= 32_767 for cell in cells)
    assert book["kernels"].max_row == 1 + STEPS * len(NAMES)


def test_exported_columns_hold_names_as_they_are(imported, said, tmp_path):
    said("export", imported, "--format", "parquet", "-o", tmp_path / "parquet")
    kernels = pq.read_table(tmp_path / "parquet" / "kernels.parquet").to_pydict()
    assert sorted(kernels["name"]) == sorted(NAMES * STEPS)


def test_exported_traces_hold_every_event(imported, said, tmp_path):
    said("export", imported, "--format", "chrome", "-o", tmp_path / "a.json")
    names = [row["name"] for row in json.loads((tmp_path / "a.json").read_text())["traceEvents"] if row["ph"] == "X"]
    told = [name[:100] for name in names]  # viewers get the beginning of what is too long for them
    assert all(told.count(name[:100]) == 3 * STEPS for name in NAMES), "each a range, an operator and a kernel"
    said("export", imported, "--format", "perfetto", "-o", tmp_path / "a.pftrace")
    content = (tmp_path / "a.pftrace").read_bytes()
    assert all(name[:100].encode() in content for name in NAMES)


def test_exported_markdown(imported, said, tmp_path):
    said("export", imported, "--format", "markdown", "-o", tmp_path / "a.md")
    check_markdown((tmp_path / "a.md").read_text())


def test_a_terminal_is_told_nothing_but_colours(captures):
    shown = on_a_terminal([sys.executable, "-m", "kernelscope.cli.main", "explain", *map(str, captures)])
    assert "\x1b[" in shown, "a terminal gets colours"
    harmless(re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n"))


def on_a_terminal(command):
    """Run a command in a terminal of 100 columns and return everything that it wrote there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="100", LINES="50")
        os.environ.pop("NO_COLOR", None)
        os.execv(command[0], command)
    written = b""
    while select.select([terminal], [], [], 120)[0]:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # its end, on Linux
            break
        if not part:
            break
        written += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, written.decode("utf8", "replace")
    return written.decode("utf8")
