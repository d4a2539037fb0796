"""The first screen of a sweep's page, of recorded runs: where the time of each cell goes, and why frameworks differ."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from kernelscope.analysis.comparisons import sweeps
from kernelscope.analysis.comparisons.sweep_kinds import by_kind
from kernelscope.analysis.explain import pair
from kernelscope.reports.sweeps import cells, kinds, page
from kernelscope.reports.sweeps.reasons import reasons

RUNS = Path(__file__).parents[2] / "data" / "gpu" / "h200"
RECORDED = {
    ("jax", "lenet"): "lenet-jax-framework",
    ("pytorch", "lenet"): "lenet-pytorch-framework",
    ("jax", "lstm"): "lstm-jax",
    ("pytorch", "lstm"): "lstm-pytorch",
}


@pytest.fixture(scope="module")
def recorded(make_cell, make_sweep):
    """A sweep of two networks and two frameworks, whose cells have kernels passes."""
    rows = []
    for (framework, network), name in RECORDED.items():
        step_ns = sweeps.measured(RUNS / name)["step_ns"]
        rows.append(make_cell(framework, network, device="cuda", step_ns=step_ns, folder=f"cells/{name}"))
    folder = make_sweep("recorded", rows)
    for name in RECORDED.values():
        shutil.copytree(RUNS / name, folder / "cells" / name)
    return folder


@pytest.fixture(scope="module")
def written(recorded, tmp_path_factory):
    target = tmp_path_factory.mktemp("out") / "report.html"
    page.write([sweeps.read(recorded)], target)
    return target


def rows_of(folder):
    return cells.rows([sweeps.read(folder)])


def test_every_cell_is_a_bar_as_long_as_its_recorded_step(recorded):
    splits = kinds.read(rows_of(recorded))
    assert [(split.row["network"], split.row["framework"]) for split in splits] == [
        ("lenet", "jax"), ("lenet", "pytorch"), ("lstm", "jax"), ("lstm", "pytorch"),
    ]  # fmt: skip
    figure = kinds.stacked(splits)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["lenet, training", "lstm, training"]
    ends = [max(bar.get_x() + bar.get_width() for bar in axes.patches if round(bar.get_center()[1]) == place)
            for axes in figure.axes for place in (0, 1)]  # fmt: skip
    assert ends == pytest.approx([sum(split.ns.values()) / 1e6 for split in splits])
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"between kernels", "host, elsewhere", "clean step, without recording"} <= set(legend)
    fills = [(patch.get_facecolor(), patch.get_hatch()) for patch in figure.legends[0].get_patches()]
    assert len(fills) == len(set(fills)), "no two parts look alike"


def test_the_largest_differences_are_explained(recorded, monkeypatch):
    found = reasons(rows_of(recorded))
    assert [reason.where for reason in found] == [
        "pytorch against jax, lstm, training, batch 64", "pytorch against jax, lenet, training, batch 64",
    ]  # fmt: skip
    for reason in found:
        assert re.fullmatch(r"\+\d[\d.]* (ms|µs)", reason.much)
        assert re.match(r"\+[\d.]+ (ms|µs): pytorch starts every operator from Python", reason.why)
    asked = []
    read = pair.read
    monkeypatch.setattr(pair, "read", lambda a, b: asked.append((a.name, b.name)) or read(a, b))
    many = [{**row, "batch": batch} for batch in (1, 2, 4, 8) for row in rows_of(recorded)]
    assert len(reasons(many)) == len(asked) == 3, "a sweep of many cells has no more explanations"


def test_one_framework_has_advice_on_its_slowest_cell(recorded):
    alone = [row for row in rows_of(recorded) if row["framework"] == "pytorch"]
    slowest = max(alone, key=lambda row: row["step_ns"])
    found = reasons(alone)
    assert 1 <= len(found) <= 3
    assert {reason.where for reason in found} == {f"pytorch, {slowest['network']}, training, batch 64"}
    assert all(reason.saves and re.match(r"(about|up to) [\d.]+ (ms|µs)", reason.much) for reason in found)


def test_what_a_cell_did_not_record_is_unknown(recorded, make_cell, tmp_path):
    folder = tmp_path / "some"
    shutil.copytree(recorded, folder)
    file = folder / "cells" / "lstm-jax" / "run.json"
    record = json.loads(file.read_text())
    del record["passes"]["kernels"]
    file.write_text(json.dumps(record))
    rows = rows_of(folder)
    splits = kinds.read(rows)
    assert [bool(split.ns) for split in splits] == [True, True, False, True]
    said = [text.get_text() for axes in kinds.stacked(splits).axes for text in axes.texts]
    assert [text.endswith("; where it goes is unknown") for text in said] == [False, False, True, False]
    (line,) = [line for line in kinds.table(splits).rows if line[-2] is None]
    assert line[-1] is None
    assert len(reasons(rows)) == 1, "the pair with both kernels passes"
    chart = page.content([sweeps.read(folder)]).charts[0]
    assert chart.notes == ("unknown: no kernels pass",)


def test_at_most_twelve_cells_are_read(recorded):
    many = [{**row, "batch": batch, "step_ns": row["step_ns"] * batch} for batch in range(1, 9) for row in rows_of(recorded)]
    splits = kinds.read(many)
    assert len(splits) == kinds.MOST
    assert {split.row["batch"] for split in splits} <= {5, 6, 7, 8} | {3, 4}, "those that differ most"
    assert (splits[-1].row["batch"], splits[-1].row["framework"]) == (8, "pytorch")


def test_the_page_has_sentence_lines_and_picture_first(written, recorded):
    text = written.read_text(encoding="utf8")
    places = [text.index(what) for what in ("<h1>", "pytorch starts every operator", 'id="figure-kinds"', 'id="measured"')]
    assert places == sorted(places)
    with (written.parent / "tables" / "kinds.csv").open(encoding="utf8", newline="") as lines:
        table = list(csv.DictReader(lines))
    sums = {}
    for row in table:
        key = (row["framework"], row["network"])
        sums[key] = sums.get(key, 0) + int(row["time_ns"])
    assert sums == {key: sum(by_kind(recorded / "cells" / name).values()) for key, name in RECORDED.items()}


def test_without_kernels_passes_the_page_says_so(thesis):
    found = page.content([sweeps.read(thesis)])
    assert found.reasons == []
    said, *_ = page.facts(found)
    assert said.startswith("where the time of a step goes: unknown, because no cell has a kernels pass")


# writes into the title where the lines and the picture end
PLACES = """<script>addEventListener("load", () => {
  const parts = [...document.querySelectorAll("#summary > .causes-list, #figure-kinds")];
  const ends = parts.map((one) => one.getBoundingClientRect().bottom);
  document.title = "ends " + ends.map(Math.round).join(" ");
});</script>"""


@pytest.mark.slow
def test_all_of_it_is_on_the_first_screen(written, browse):
    document, console = browse(written, PLACES, options=["--window-size=1280,900"])
    assert console == []
    ends = [int(number) for number in re.search("<title>ends ([0-9 ]+)</title>", document)[1].split()]
    assert len(ends) == 2
    assert max(ends) <= 900
