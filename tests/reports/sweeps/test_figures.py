# ruff: noqa: RUF001 (what failed is marked with a multiplication sign)
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from kernelscope.analysis import published
from kernelscope.analysis.comparisons import sweeps
from kernelscope.reports.figures import Style
from kernelscope.reports.sweeps import agreement, bars, cells, code, core_map, lines
from kernelscope.reports.sweeps.looks import looks

NARROW = Style(width_in=4.4, font_pt=9.0)


def rows(*folders):
    return cells.rows([sweeps.read(folder) for folder in folders])


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def widths(axes):
    return [patch.get_width() for patch in axes.patches]


def test_bars_are_as_long_as_the_rates_and_failures_say_why(thesis):
    figure = bars.throughput(rows(thesis))
    assert isinstance(figure, Figure)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        f"{name}, training, batch 64" for name in ("lenet", "alexnet", "resnet50")
    ]
    assert widths(figure.axes[0]) == pytest.approx([9000 * speed * 2**0.5 for speed in (1.0, 0.9, 1.3, 0.4, 0.7)], rel=1e-6)
    assert len(widths(figure.axes[1])) == len(widths(figure.axes[2])) == 4, "what failed has no bar, not one of 0"
    assert [text for text in texts(figure) if not text[0].isdigit()] == ["timeout", "out of memory"]


def test_intervals_are_drawn_from_end_to_end(thesis):
    axes = bars.throughput(rows(thesis)).axes[0]
    ends = sorted(point for segment in axes.collections[0].get_segments() for point in segment[:, 0])
    rate = 9000 * 2**0.5
    assert ends == pytest.approx([rate / 1.04, rate / 0.96], rel=1e-4)


def test_unknown_numbers_are_not_drawn(thesis, gpus, make_cell, make_sweep):
    assert bars.shown(rows(thesis), bars.POWER) == []
    assert bars.shown(rows(thesis), bars.GPU_MEMORY) == [], "a processor's run holds no GPU memory: none, not 0"
    mixed = make_sweep("mixed", [make_cell("pytorch", "lenet", power_w=20.0), make_cell("mxnet", "lenet")])
    figure = bars.power(rows(mixed))
    assert (widths(figure.axes[0]), texts(figure)) == ([20.0], ["20.0", "unknown"])
    assert {patch.get_hatch() for axes in bars.power(rows(gpus)).axes for patch in axes.patches} == {"", "///"}


def test_one_batch_size_is_taken_where_most_ran(shi):
    taken = bars.shown(rows(shi), bars.THROUGHPUT)
    assert {row["batch"] for row in taken} == {32}, "at 64 one framework had no memory; 32 is the larger of the others"


def test_time_against_threads_has_lines_bands_and_marks(shi):
    figure = lines.time_by_threads(rows(shi))
    panel = figure.axes[2]
    assert "batch 64" in panel.get_title(loc="left")
    curves = [line for line in panel.lines if len(line.get_xdata()) == 3]
    assert [list(line.get_xdata()) for line in curves] == [[1, 2, 4]] * 2
    expected = [64 / (120 * threads**0.5) * 1000 for threads in (1, 2, 4)]
    assert list(curves[0].get_ydata()) == pytest.approx(expected, rel=1e-6)
    band = panel.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(expected[-1] * 0.96, rel=1e-4)
    assert band[:, 1].max() == pytest.approx(expected[0] * 1.04, rel=1e-4)
    marks = [line for line in panel.lines if line.get_marker() == "x"]
    assert [list(line.get_xdata()) for line in marks] == [[1], [2], [4]]
    assert "× out of memory: tensorflow at 1" in panel.get_xlabel()


def test_time_against_batch(shi):
    figure = lines.time_by_batch(rows(shi))
    assert [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes if axes.get_visible()] == [
        "fcn5, training; CPU, 1 thread", "fcn5, training; CPU, 2 threads", "fcn5, training; CPU, 4 threads",
    ]  # fmt: skip
    assert all("× out of memory: tensorflow at 64" in axes.get_xlabel() for axes in figure.axes)


def test_no_two_lines_are_told_by_colour_alone(shi):
    found = looks([f"framework{number}" for number in range(14)])
    assert len({(look.marker, look.dashes) for look in found.values()}) == 14
    axes = lines.time_by_threads(rows(shi)).axes[0]
    assert len({line.get_marker() for line in axes.lines}) == 3


def test_scaling_efficiency(shi, gpus):
    figure = lines.scaling(rows(shi), "threads")
    curve = next(line for line in figure.axes[0].lines if len(line.get_xdata()) == 3)
    assert list(curve.get_ydata()) == pytest.approx([1, 2**-0.5, 0.5], rel=1e-6)
    curve = lines.scaling(rows(gpus), "devices").axes[0].lines[0]
    assert list(curve.get_ydata()) == pytest.approx([1, 2**-0.2], rel=1e-6)


def test_lines_of_code_against_time(levels):
    marks = code.lines_of_code(rows(levels)).axes[0].lines
    places = {(line.get_xdata()[0], round(float(line.get_ydata()[0]), 4)) for line in marks}
    times = {name: 1000 / (9000 * speed * 2**0.5 * 0.125) for name, speed in (("pytorch", 1.0), ("onednn", 2.0))}
    assert {(60, round(times["pytorch"], 4)), (190, round(times["onednn"], 4))} <= places
    assert len(places) == 4


def test_time_by_level_goes_from_the_library_upwards(levels):
    figure = code.time_by_level(rows(levels))
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["onednn", "pytorch", "tensorflow", "keras-torch", "keras-tensorflow"]
    assert "not available" in texts(figure)
    assert len({patch.get_hatch() for patch in figure.axes[0].patches}) == 3, "levels differ in hatches, too"


def test_the_map_of_cores_leaves_unread_parts_blank():
    readings = pd.DataFrame(
        {"core": [0, 1, 0], "start_ns": [0, 0, 10**9], "end_ns": [10**9, 10**9, 2 * 10**9], "busy": [0.5, 1.0, 0.0]}
    )
    row = {"framework": "x", "network": "lenet", "mode": "train", "batch": 1, "threads": 2, "device": "cpu"}
    mesh = core_map.core_map([core_map.CoreUse(row, readings)]).axes[0].collections[0]
    values = np.ma.asarray(mesh.get_array())
    half = values.shape[1] // 2
    assert np.allclose(values[0, :half], 0.5)
    assert np.allclose(values[0, half:], 0.0)
    assert values.mask[1, half:].all(), "core 1 was not read in the second half"
    assert not values.mask[1, :half].any()


def test_published_ratios_are_drawn_over_measured_ones(thesis):
    groups = agreement.nearest(published.compare(rows(thesis)))
    axes = agreement.published_against_measured(groups).axes[0]
    assert "other hardware, other versions" in axes.get_ylabel()
    points = {
        (round(float(line.get_xdata()[0]), 3), round(float(line.get_ydata()[0]), 3))
        for line in axes.lines
        if len(line.get_xdata()) == 1
    }
    assert (1.3, round(1000 / 1448, 3)) in points, "MXNet on LeNet: 1.3 times PyTorch here, 1000 to 1448 images/s there"


@pytest.mark.parametrize(
    "draw", [bars.throughput, lines.time_by_threads, lines.time_by_batch, code.lines_of_code, code.time_by_level]
)
def test_narrow_figures_have_their_panels_below_each_other(shi, levels, draw):
    figure = draw(rows(levels if draw.__module__.endswith("code") else shi), NARROW)
    assert figure.get_figwidth() == pytest.approx(4.4)
    assert len({axes.get_subplotspec().colspan.start for axes in figure.axes}) == 1


def test_titles_fit_their_panels(make_cell, make_sweep):
    longest = [make_cell("pytorch", f"resnet50_cifar10_{number}", step_ns=10**6, mode="infer", batch=128) for number in range(3)]
    for style, most in ((Style(), 36), (NARROW, 50)):
        titles = [axes.get_title(loc="left") for axes in bars.throughput(rows(make_sweep(f"long{most}", longest)), style).axes]
        assert max(len(line) for title in titles for line in title.split("\n")) < most
