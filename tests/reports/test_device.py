"""Tables and the figure of a device's work: units, what is left out, odd names."""

import warnings

import pytest

from kernelscope.reports import device, figures

ROW = {
    "name": "sgemm $x^2$ \x1b[31m", "kind": "gemm", "layer": None, "phase": "forward", "problem": None, "m": 1, "n": 2, "k": 3,
    "transpose": None, "dtype": "f32", "algorithm": None, "count": 2, "duration_ns": 1_500_000, "flops": 10, "bytes": 5,
    "gflops_per_s": 12.5, "of_product": 0.25, "gbytes_per_s": 6.25, "of_copy": 0.5, "intensity": 2.0, "bound": "copy",
    "of_roofline": 0.5, "reason": None,
}  # fmt: skip
UNKNOWN = {**ROW, "name": "other", "gflops_per_s": None, "intensity": None, "duration_ns": 500_000, "of_product": None}
CEILINGS = {
    "source": "measured", "framework": "pytorch", "device": "cpu", "threads": 2,
    "copies": [{"bytes": 1 << 20, "bytes_per_s": 2e10}], "products": [{"dtype": "f32", "flops_per_s": 5e10}],
}  # fmt: skip


def found(ceilings=CEILINGS, rows=(ROW, UNKNOWN)):
    return {
        "by": "kernel", "rows": list(rows), "kernel_ns": 2_000_000, "known_ns": 1_500_000, "steps": 3, "step_ns": None,
        "ceilings": ceilings, "notes": ["a note"],
    }  # fmt: skip


@pytest.mark.parametrize("ceilings", [CEILINGS, None, {**CEILINGS, "copies": []}], ids=["all", "none", "no copies"])
@pytest.mark.parametrize("rows", [(ROW, UNKNOWN), (UNKNOWN,), ()], ids=["known", "unknown", "empty"])
def test_the_roofline_is_drawn_without_a_warning(ceilings, rows):
    for style in (figures.Style(), figures.Style(width_in=4.4, font_pt=9.0)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figure = figures.roofline(found(ceilings, rows), style)
            figure.draw_without_rendering()
        title = figure.axes[0].get_title(loc="left")
        assert ("1 rows without both numbers left out" in title) == (UNKNOWN in rows)


def test_the_roof_is_at_the_ceilings():
    line = figures.roofline(found()).axes[0].lines[0]
    assert list(line.get_ydata())[1:] == [50.0, 50.0]
    assert line.get_xdata()[1] == 2.5, "50 Gflop/s over 20 GB/s"


def test_rows_for_reading():
    shown = device.readable(device.rates(found()), 1)
    assert shown[0]["duration (ms)"] == "1.500"
    assert shown[0]["share"] == "75.0%"
    assert shown[0]["of_product"] == "25.0%"
    assert "\x1b" not in shown[0]["name"]
    assert "layer" not in shown[0], "a column without anything"
    assert shown[1]["name"] == "(1 more)"
    assert shown[1]["duration (ms)"] == "0.500"
    lines = device.roofline_lines(found())
    assert "75.0%" in lines[0]
    assert "f32 50.0 Gflop/s" in lines[1]
    assert lines[-1] == "note: a note"
