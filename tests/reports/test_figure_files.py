"""Figures as files: PNG, SVG and PDF of everything that can be drawn of a comparison, an explanation, a run and a capture."""

import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from kernelscope.cli.main import main
from kernelscope.reports import figures
from kernelscope.reports.figures import PAPER, SLIDES, breakdown, files, gathered
from tests.places import ROOT

DATA = Path(__file__).parents[1] / "data"
SVG = "{http://www.w3.org/2000/svg}"
TREE = {  # a breakdown of two rows of one name, one of no time, and more rows than have bars
    "by": "idle", "step_ns": 7_000_000, "window": "steps",
    "rows": [{"cause": "in layers", "layer": f"fc{n}", "time_ns": 1_000_000, "duration_ns": 0} for n in range(3)]
    + [{"cause": f"cause {n}", "layer": None, "time_ns": 0 if n == 11 else 500_000 - n, "duration_ns": 0} for n in range(12)],
}  # fmt: skip


def bars(axes):
    """Widths of an axes's bars by the row they stand in."""
    found = {}
    for bar in axes.patches:
        place = round(bar.get_y() + bar.get_height() / 2)
        found[place] = found.get(place, 0.0) + bar.get_width()
    return [found[place] for place in sorted(found)]


def test_a_figure_becomes_three_files_that_are_the_same_every_time(result, tmp_path):
    drawn = {name: draw for name, draw in gathered.of_comparison(result).items() if name == "step_times"}
    both = [files.write(drawn, tmp_path / name, PAPER) for name in "ab"]
    assert [file.name for file in both[0]] == ["step_times.png", "step_times.svg", "step_times.pdf"] == files.names(drawn)
    contents = [[file.read_bytes() for file in written] for written in both]
    assert contents[0] == contents[1]
    png, svg, pdf = contents[0]
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20]) == 7 * 300, "as wide as a page's columns, in 300 dots an inch"
    assert pdf.startswith(b"%PDF")
    assert b"/Type3" not in pdf, "publishers refuse Type 3 fonts"
    assert b"CreationDate" not in pdf
    texts = {element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")}
    assert set(result["frameworks"]) <= texts


@pytest.mark.long
@pytest.mark.parametrize("style", [PAPER, SLIDES], ids=["paper", "slides"])
@pytest.mark.parametrize("kind", ["result", "hostile", "sparse"])
def test_every_figure_of_a_comparison_is_drawn_in_every_style(kind, style, request):
    for draw in gathered.of_comparison(request.getfixturevalue(kind)).values():
        figure = draw(style)
        figure.draw_without_rendering()
        assert figure.get_size_inches()[0] == style.width_in


@pytest.mark.parametrize("draw", [figures.kinds_stacked, figures.layers_stacked])
def test_on_paper_parts_of_a_stack_differ_without_colours(draw, result):
    axes = draw(result, PAPER).axes[0]
    frameworks = len(result["frameworks"])
    first_row = axes.patches[::frameworks]  # parts are drawn one after the other, each for all frameworks
    looks = [(bar.get_hatch(), round(np.dot(to_rgb(bar.get_facecolor()), (0.299, 0.587, 0.114)), 1)) for bar in first_row]
    assert len(set(looks)) == len(looks) > 5
    assert all(a[0] != b[0] for a, b in itertools.pairwise(looks)), "neighbours differ in their hatch"


def test_bars_of_a_breakdown_add_up_and_rows_of_one_name_are_one():
    axes = figures.rows(TREE).axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[0] == "in layers"
    assert names[-1] == "(2 more)"
    assert len(names) == 11
    widths = bars(axes)
    assert widths[0] == 3.0
    assert sum(widths) * 1e6 == pytest.approx(sum(row["time_ns"] for row in TREE["rows"]))


def test_causes_and_what_they_leave_add_up_to_the_difference(explained):
    axes = figures.causes(explained).axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[-2:] == ["not explained", "difference"]
    *parts, whole = bars(axes)
    assert sum(parts) == pytest.approx(whole)
    assert len(parts) == len(explained["findings"]) + 1
    assert whole == pytest.approx(explained["wall_delta_ns"] / 1e6, abs=0.0051)


def test_hostile_explanations_are_drawn(hostile_explained):
    drawn = gathered.of_explanation(hostile_explained)
    assert set(drawn) == {"waterfall", "causes"}
    for draw in drawn.values():
        draw(PAPER).draw_without_rendering()


def test_steps_are_drawn_one_by_one_and_far_ones_at_the_edge():
    figure = figures.steps([[1_000_000, 1_100_000, 900_000], [], [1_200_000, 90_000_000, 1_200_000]])
    axes = figure.axes[0]
    marks = [line.get_ydata() for line in axes.lines if line.get_linestyle() == "None"]
    assert [len(ys) for ys in marks] == [3, 3], "a restart without steps is left out"
    assert list(marks[0]) == [1.0, 1.1, 0.9]
    assert list(marks[1]) == pytest.approx([1.2, 3.6, 1.2])
    assert "1 of more than 3.60 ms" in axes.get_title(loc="left")
    assert len(figures.steps([]).axes) == 1


def test_names_of_files_are_plain_and_no_two_alike():
    names = files.names(["../../etc/passwd", "a b", "a-b", "\u202e", "x" * 500])
    assert len(set(names)) == len(names) == 15
    assert all(name.isascii() and "/" not in name and not name.startswith(".") and len(name) < 120 for name in names)


def test_report_writes_figures_and_does_not_lose_any(result, tmp_path, capsys):
    result["explanations"] = []
    (tmp_path / "cmp").mkdir()
    (tmp_path / "cmp" / "compare.json").write_text(json.dumps(result))
    target = tmp_path / "figures"
    asked = ["report", str(tmp_path / "cmp"), "--figures", str(target), "--style", "slides"]
    assert main(asked) == 0
    out, err = capsys.readouterr()
    assert out == "", "with --figures alone nothing is printed"
    assert str(target) in err
    assert {file.name for file in target.iterdir()} == {
        f"{name}.{form}" for name in ("step_times", "kinds", "layers_stacked", "layers") for form in files.FORMS
    }
    assert main(asked) == 3
    assert "step_times.png: exists" in capsys.readouterr().err
    assert main([*asked[:3], str(tmp_path / "cmp" / "compare.json")]) == 3
    assert "is a file; name a folder" in capsys.readouterr().err


def test_figures_of_a_capture_are_those_of_its_import(tmp_path):
    capture = str(ROOT / "tests/data/gpu/h200/mlp.pt.trace.json.gz")
    assert main(["import", capture, "-o", str(tmp_path / "imported")]) == 0
    drawn = []
    for given in (capture, str(tmp_path / "imported")):
        target = tmp_path / f"figures{len(drawn)}"
        assert main(["report", given, "--figures", str(target)]) == 0
        drawn.append({path.name for path in target.iterdir()})
    assert drawn[0] == drawn[1]
    assert {"by_layer.svg", "by_kernel.svg", "by_kind.svg"} <= drawn[0]


def test_figures_leave_matplotlib_as_it_was(result):
    before = dict(mpl.rcParams)
    files.rendered(figures.step_times(result, SLIDES), SLIDES)
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("phases", "names"),
    [
        (("forward", "forward"), ["convolution forward", "gemm", "(host: waits)"]),
        (("forward", "backward"), ["convolution forward", "gemm backward", "(host: waits)"]),
    ],
)
def test_a_phase_that_all_rows_have_is_no_part_of_their_names(phases, names):
    kinds = [*zip(("convolution forward", "gemm"), phases, strict=True), ("(host: waits)", "other")]
    rows = [{"kind": kind, "phase": phase, "time_ns": 9 - at, "duration_ns": 0} for at, (kind, phase) in enumerate(kinds)]
    shown = breakdown.lengths({"by": "kind", "step_ns": 24, "window": "steps", "rows": rows})
    assert [name for name, _ in shown] == names
