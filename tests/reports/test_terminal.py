# ruff: noqa: RUF001 (ratios are shown with a multiplication sign)
import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from kernelscope.reports import breakdown_grid, breakdown_terminal, comparison_terminal
from kernelscope.reports.breakdown_grid import bar

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def drawn(renderable, width, **options):
    stream = io.StringIO()
    Console(file=stream, width=width, **{"color_system": None, **options}).print(renderable)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["result", "hostile", "sparse"])
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_it_fits_the_width_and_sends_no_control_characters(kind, width, request):
    page = drawn(comparison_terminal.comparison(request.getfixturevalue(kind)), width)
    assert max(map(cell_len, page.splitlines())) <= width
    assert not CONTROL.search(page)
    assert "Traceback" not in page


@pytest.mark.parametrize("width", [80, 120])
def test_numbers_are_whole_at_common_widths(result, width):
    """Four frameworks stand beside each other, each with its time, its ratio and its total."""
    page = drawn(comparison_terminal.comparison(result), width)
    assert "…" not in page.split("top host lines")[0]
    header = [line for line in page.splitlines() if re.match(r"\s+pytorch\s+tensorflow\s+mxnet\s+cntk\s*$", line)]
    assert len(header) >= 3
    totals = [line.split()[2:] for line in page.splitlines() if line.startswith("clean step")]
    assert totals == [["71.21", "6.42", "58.20", "26.17"]] * 2
    assert re.search(r"conv1 backward\s+18.64\s+33(\.2)?×.*0.56\s+1.00?×.*101.98\s+181×.*1.84\s+(3.28|3.3)×", page)


def test_the_answer_comes_first(result):
    lines = drawn(comparison_terminal.comparison(result), 120).splitlines()
    assert lines[0].startswith("tensorflow is fastest with 6.42 ms per step; cntk takes 4.08× as long")
    top = "\n".join(lines[:18])
    assert "LeNet-5" in top
    assert "train · batch 64 · cpu · 2 threads · on the machine as it was" in top
    assert "conv2 backward +40.4 ms" in top
    assert "--steady" in top


def test_steps_have_bars_in_proportion_where_there_is_room(result):
    rows = [
        re.match(r"  (\w+) +[\d.,]+ ms +([█▏▎▍▌▋▊▉]+) ", line)
        for line in drawn(comparison_terminal.comparison(result), 140).splitlines()[:12]
    ]
    bars = {match[1]: len(match[2]) for match in rows if match}
    assert list(bars) == ["tensorflow", "cntk", "mxnet", "pytorch"]
    medians = {row["framework"]: row["step_median_ns"] for row in result["summary"]}
    longest = max(bars.values())
    assert all(abs(bars[name] - longest * medians[name] / max(medians.values())) <= 1 for name in bars)
    assert "pytorch: " in "\n".join(drawn(comparison_terminal.comparison(result), 80).splitlines()[:12]), (
        "without room, a sentence each"
    )


def test_why_comes_before_the_numbers(result, explained):
    result["explanations"] = [explained]
    page = drawn(comparison_terminal.comparison(result), 120)
    assert 0 < page.index("Why: ") < page.index("Summary, per step")
    assert "most in" not in page, "the explanation says it better"


def test_settings_of_one_framework_alone_are_a_sentence(result):
    result["fairness"]["differences"] = [
        {"setting": "bulk_size", "values": {"mxnet": 0}},
        {"setting": "layout", "values": {"pytorch": "channels first", "tensorflow": "channels last", "mxnet": None}},
    ]
    page = drawn(comparison_terminal.comparison(result), 120)
    assert "only mxnet has: bulk size 0" in page
    assert re.search(r"layout +channels first +channels last +— +—", page)


@pytest.mark.parametrize("width", [80, 120])
def test_a_breakdown_has_a_line_a_row(width):
    row = {"phase": "backward", "count": 1080, "duration_ns": 10, "time_ns": 100_000, "share": 0.1}
    rows = [{**row, "layer": f"(between layer{n})", "method": "launch range; stream order"} for n in range(10)]
    part = {"by": "layer", "step_ns": 1_000_000, "coverage": 1.0, "steps": 1, "rows": rows}
    found = drawn(breakdown_terminal.breakdown(part), width).splitlines()
    assert sum("launch range; stream order" in line for line in found) == 10
    assert max(map(cell_len, found)) <= width
    assert max(line.count("█") for line in found) >= 4


def test_kernels_lines_fairness_and_passes_are_there(result):
    page = drawn(comparison_terminal.comparison(result), 120)
    assert "mb64_ic1oc6_ih28oh28kh5sh1dh0ph2_iw28ow28kw5sw1dw0pw2" in page
    assert "loss.backward()" in page
    assert "16 of 16 checks passed" in page
    assert "repeat with: kernelscope compare lenet -f pytorch,tensorflow,mxnet,cntk" in page
    assert "layers known" in page


def test_a_failed_check_a_missing_framework_and_a_failed_pass_are_said(result):
    result["left_out"] = [{"framework": "caffe2", "reason": "no Python 3.8"}]
    result["fairness"]["rows"][9].update(status="fail", value=0.0123)
    result["passes"][-1] = {"framework": "cntk", "pass": "lines", "step_median_ns": None, "reason": "killed by signal 9"}
    page = drawn(comparison_terminal.comparison(result), 200)
    assert "caffe2: left out: no Python 3.8" in page
    assert "outputs for the same weights failed: 0.0123, required at most 0.0001" in page
    assert "1 FAILED" in page
    assert "cntk, lines: killed by signal 9" in page


def test_low_coverage_explains_nothing(result):
    for row in result["passes"]:
        if row["framework"] == "mxnet" and "layer_coverage" in row:
            row["layer_coverage"] = 0.61
    assert "mxnet: only 61.0% of the step has a known layer" in drawn(comparison_terminal.comparison(result), 200)


def test_colours_only_where_they_are_wanted(result, monkeypatch):
    coloured = {"color_system": "standard", "force_terminal": True}
    assert "\x1b[" in drawn(comparison_terminal.comparison(result), 100, **coloured)
    assert "\x1b[" not in drawn(comparison_terminal.comparison(result), 100)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn(comparison_terminal.comparison(result), 100, **coloured))


def test_a_breakdown_ends_in_the_step(result):
    part = result["lines"]["pytorch"]
    page = drawn(breakdown_terminal.breakdown(part), 80)
    assert "loss.backward()" in page
    assert page.rstrip().splitlines()[-1].split()[:3] == ["119.39", "100.0%", "step"]


def test_a_long_breakdown_keeps_its_sum(result):
    row = {"phase": "x", "count": 1, "duration_ns": 10, "time_ns": 10_000, "share": 0.001, "method": "none"}
    part = {"by": "phase", "step_ns": 10_000_000, "coverage": 1.0, "steps": 1, "rows": [dict(row) for _ in range(1000)]}
    page = drawn(breakdown_terminal.breakdown(part, rows=10), 80)
    assert "(990 more)" in page
    assert "99.0%" in page


def test_bars():
    assert [bar(share, 4) for share in (0, 0.5, 1, 2, -1)] == ["", "██", "████", "████", ""]
    assert bar(1 / 32, 4) == "▏"


def test_the_path_that_all_layers_share_is_said_once():
    rows = [{"layer": f"Model_0/Encoder_0/layers.{n}/attention", "phase": "forward", "time_ns": 10, "share": 0.5, "count": 1,
             "method": "none"} for n in range(2)]  # fmt: skip
    result = {"by": "layer", "rows": rows, "step_ns": 20}
    assert breakdown_grid.shared_path(result, 20) == "Model_0/Encoder_0/layers."
    assert breakdown_grid.shared_path({**result, "rows": rows[:1]}, 20) == ""
    short = [{**row, "layer": f"net.{place}"} for place, row in enumerate(rows)]
    assert breakdown_grid.shared_path({**result, "rows": short}, 20) == ""
    assert breakdown_grid.shared_path({**result, "by": "operator"}, 20) == ""
