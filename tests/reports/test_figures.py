import warnings

import pytest
from matplotlib.figure import Figure

from kernelscope.reports import figures, svg

DRAWN = (figures.step_times, figures.kinds_stacked, figures.layers_stacked, figures.layers)
NARROW = figures.Style(width_in=4.4, font_pt=9.0)


@pytest.mark.parametrize("draw", DRAWN)
@pytest.mark.parametrize("kind", ["result", "hostile", "sparse"])
@pytest.mark.parametrize("style", [figures.Style(), NARROW], ids=["wide", "narrow"])
def test_every_figure_is_drawn_without_a_warning(draw, kind, style, request):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw(request.getfixturevalue(kind), style)
        assert isinstance(figure, Figure)
        text = svg.inline(figure, "key", "what it shows", style)
    assert text.startswith("<svg")
    assert 'id="key-' in text


@pytest.mark.parametrize("draw", [figures.kinds_stacked, figures.layers_stacked])
def test_stacks_are_as_long_as_the_traced_step(draw, result):
    axes = draw(result).axes[0]
    ends = {}
    for bar in axes.patches:
        ends[round(bar.get_y(), 3)] = max(ends.get(round(bar.get_y(), 3), 0), bar.get_x() + bar.get_width())
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["tensorflow", "cntk", "mxnet", "pytorch"], "fastest first"
    traced = {
        name: sum(row["time_ns"][name] or 0 for row in result["kinds"] if row["kind"] != "(profiling overhead)") / 1e6
        for name in names
    }
    assert [ends[place] for place in sorted(ends)] == pytest.approx([traced[name] for name in names])


def test_every_bar_of_the_layers_is_inside_its_panel(result):
    figure = figures.layers(result)
    panels = figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == result["frameworks"]
    for axes in panels:
        low, high = axes.get_xlim()
        assert low == 0
        assert all(bar.get_x() + bar.get_width() <= high for bar in axes.patches)
        assert axes.get_xlabel() == "ms per step"


def test_many_layers_become_one_row_without_loss(result):
    extra = [
        {"layer": f"block{n}", "phase": "forward", "time_ns": dict.fromkeys(result["frameworks"], 1_000_000), "ratio": {}}
        for n in range(100)
    ]
    result["layers"] += extra
    axes = figures.layers(result).axes[0]
    assert any("smaller" in text.get_text() for text in axes.get_yticklabels())
    whole = sum(row["time_ns"]["pytorch"] or 0 for row in result["layers"] if row["layer"] != "(profiling overhead)")
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(whole / 1e6)
