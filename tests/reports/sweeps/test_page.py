import csv
import re
from xml.etree import ElementTree

import matplotlib.image
import pytest

from kernelscope.analysis.comparisons import sweeps
from kernelscope.cli.main import main
from kernelscope.reports.sweeps import page

HOSTILE = (
    "<script>alert(1)</script>",
    '=HYPERLINK("http://example.org")',
    "$\\frac{a}$ \u202egnp.exe",
    "'\"><img src=x onerror=alert(2)>",
)


@pytest.fixture(scope="module")
def written(thesis, tmp_path_factory):
    """The report of the sweep of the thesis: its page's text, and the folder that it is in."""
    target = tmp_path_factory.mktemp("out") / "report.html"
    page.write([sweeps.read(thesis)], target)
    return target.read_text(encoding="utf8"), target.parent


def test_it_is_one_file_that_asks_for_nothing(written, parse):
    text, _ = written
    found = parse(text)
    assert found.tags.count("script") == 5, "two libraries of tables, and what is ours"
    assert {"img", "iframe", "object", "embed", "link"} - set(found.tags) >= {"img", "iframe", "object", "embed"}
    assert all(value.startswith(("#", "data:")) for _, name, value in found.attributes if name in ("src", "href"))
    identifiers = [value for _, name, value in found.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    (head,) = re.findall("<h1>(.*)</h1>", text)
    assert head == (
        "mxnet has the shortest step in 2 of 3 comparisons; cntk takes up to 3.25 times as long (12.6 ms against 3.87 ms; lenet "
        "train, batch 64); 13 of 15 cells measured"
    )
    assert "killed by the system at 3.9 GiB" in text
    assert "Power: unknown for every cell" in text, "a figure that is not drawn says why"


def test_frameworks_that_are_fastest_equally_often_are_all_named(thesis):
    rows = page.content([sweeps.read(thesis)]).rows
    done = [row for row in rows if row["status"] == "done"]
    other = next(row["framework"] for row in done if row["framework"] != "mxnet")
    tied = [
        {**done[0], "framework": framework, "network": network, "step_ns": step_ns}
        for network, winner in {"lenet": "mxnet", "vgg16": other}.items()
        for framework, step_ns in {"mxnet": 1 + (winner != "mxnet"), other: 1 + (winner == "mxnet")}.items()
    ]
    found = page.Content([], tied, [], [], [], [])
    first, behind, *_ = page.headline(found).split("; ")
    assert first == f"mxnet and {other} have the shortest step in 1 of 2 comparisons each"
    assert "takes up to 2 times as long (2.00 ns against 1.00 ns" in behind
    assert page.headline(found).endswith("; all 4 cells measured")


def test_published_numbers_are_apart(written, parse):
    text, _ = written
    measured, _, rest = text.partition('<section id="published"')
    assert "Published by others: other hardware, other versions" in rest
    assert "1xP100" not in measured
    assert next(row for row in parse(text).rows if row and row[0] == "TensorFlow")[:2] == ["TensorFlow", "818"]


def test_a_picture_is_on_the_first_screen(written):
    text, _ = written
    assert text.index('id="summary"') < text.index('id="figure-throughput"') < text.index('id="measured"')
    assert text.count('id="figure-throughput"') == 1


def test_figures_and_tables_are_files_too(written):
    _, folder = written
    for stem in ("throughput", "memory", "lines_of_code", "time_by_level", "published_ratios"):
        assert matplotlib.image.imread(folder / "figures" / f"{stem}.png").shape[1] == 1440
        root = ElementTree.parse(folder / "figures" / f"{stem}.svg").getroot()
        assert len(list(root.iter("{http://www.w3.org/2000/svg}text"))) > 5
        assert (folder / "tables" / f"{stem}.csv").is_file()
    assert not (folder / "figures" / "power.png").exists()
    with (folder / "tables" / "throughput.csv").open(encoding="utf8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 15
    failed = next(row for row in rows if row["status"] == "timeout")
    assert (failed["samples_per_second"], failed["reason"]) == ("", "no end after 600 s")
    with (folder / "tables" / "published_ranks.csv").open(encoding="utf8", newline="") as lines:
        assert {row["n"] for row in csv.DictReader(lines)} >= {"3", "4"}


@pytest.fixture(scope="module")
def hostile(make_cell, make_sweep, tmp_path_factory):
    """The page of a sweep with hostile text in every place where a sweep has text."""
    names = [make_cell(text, "lenet", version=text, hardware=text) for text in HOSTILE]
    failed = [make_cell(text, "mlp", "failed", reason=text, hardware=text) for text in HOSTILE]
    rows = [make_cell("pytorch", "lenet"), *names, *failed]
    target = tmp_path_factory.mktemp("out") / "page.html"
    page.write([sweeps.read(make_sweep("hostile", rows, title=HOSTILE[0], toml="\n".join(HOSTILE)))], target)
    return target


def test_hostile_names_are_only_text(hostile, parse):
    text = hostile.read_text(encoding="utf8")
    assert "img" not in parse(text).tags
    assert "<script>alert" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    for file in hostile.parent.rglob("*.svg"):
        assert "script" not in {element.tag.rpartition("}")[2] for element in ElementTree.parse(file).iter()}
    cells = (hostile.parent / f"{hostile.stem}-tables" / "cells.csv").read_text(encoding="utf8")
    assert not re.search('(^|[,"])[=@]', cells, re.M)


def test_nothing_measured_is_a_report_too(make_cell, make_sweep, tmp_path):
    folder = make_sweep("none", [make_cell("cntk", "lenet", "not available", reason="no environment")])
    page.write([sweeps.read(folder)], tmp_path / "out" / "page.html")
    text = (tmp_path / "out" / "page.html").read_text(encoding="utf8")
    assert "<h1>0 of 1 cells measured</h1>" in text
    assert "no environment" in text
    assert list((tmp_path / "out" / "page-figures").iterdir()) == []


def test_several_sweeps_share_a_page(make_cell, make_sweep, tmp_path, parse):
    one = make_sweep("same", [make_cell(name, "lenet") for name in ("pytorch", "mxnet")])
    other = make_sweep("same", [make_cell("pytorch", "lenet", hardware="another processor")])
    again = make_sweep("same", [make_cell("pytorch", "lenet")])
    found = page.content([sweeps.read(folder) for folder in (one, other, again)])
    assert [row["sweep"] for row in found.rows] == ["same", "same", "same", "same (2)"]
    page.write(found.sweeps, tmp_path / "out" / "page.html")
    page_read = parse((tmp_path / "out" / "page.html").read_text(encoding="utf8"))
    identifiers = [value for _, name, value in page_read.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    assert len(list((tmp_path / "out" / "page-tables").glob("*-measured-step-ns.csv"))) == 3


def test_the_command_writes_into_the_sweeps_folder(levels, capsys):
    assert main(["report", str(levels)]) == 0
    assert "figures: " in capsys.readouterr().err
    before = {file: file.read_bytes() for file in (levels / "report").rglob("*.*")}
    assert {"report.html", "time_by_level.png", "time_by_level.svg", "time_by_level.csv"} <= {file.name for file in before}
    assert main(["report", str(levels)]) == 0
    assert {file: file.read_bytes() for file in (levels / "report").rglob("*.*")} == before, "the same sweep, the same files"
    capsys.readouterr()
    assert main(["report", str(levels), "--format", "json"]) == 0
    said = capsys.readouterr()
    assert '"schema": "kernelscope/sweep_cells/1"' in said.out
    assert "report:" not in said.err


def test_the_command_loses_no_file(levels, shi, tmp_path, capsys):
    assert main(["report", str(levels), str(shi)]) == 2
    assert "name the report's file with -o FILE.html" in capsys.readouterr().err
    (tmp_path / "page-tables").mkdir()
    assert main(["report", str(levels), "-o", str(tmp_path / "page.html")]) == 3
    assert "pass --force" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
    assert main(["report", str(levels), str(tmp_path)]) == 3
    assert "not a sweep" in capsys.readouterr().err


# writes into the title whether anything but a scrolling table is wider than the page
WIDTH = """<script>addEventListener("load", () => {
  document.title = "over " + (document.documentElement.scrollWidth - innerWidth);
});</script>"""


@pytest.mark.slow
def test_the_page_opens_in_a_browser_and_fits_a_narrow_window(hostile, browse):
    document, console = browse(hostile, options=["--window-size=1280,900"])
    assert console == []
    assert "data-tables=" in document, "the page's own script ran"
    document, _ = browse(hostile, WIDTH, options=["--window-size=500,900"])
    over = re.search(r"<title>over (-?\d+)</title>", document)
    assert over, document[:2000]
    assert int(over[1]) <= 0
