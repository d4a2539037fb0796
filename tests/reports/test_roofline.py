"""The interactive roofline: what its points are, where the roof is, and that points lead to rows in a browser."""

import json
import re

import pytest

from kernelscope.reports import html, measured
from kernelscope.reports.roofline import MOST, anchor, roofline

CEILINGS = {
    "source": "measured", "framework": "pytorch", "device": "cpu", "threads": 2, "measured": "2026-11-22T03:00:00+00:00",
    "copies": [{"bytes": 1 << 10, "bytes_per_s": 9e10}, {"bytes": 1 << 20, "bytes_per_s": 2e10}],
    "products": [{"dtype": "f32", "flops_per_s": 5e10}, {"dtype": "f16", "flops_per_s": 9e10}],
}  # fmt: skip


def kernel(name, duration_ns=1_000_000, **more):
    row = {
        "name": name, "kind": "gemm", "layer": "fc1", "phase": "forward", "problem": "64x10", "m": 1, "n": 2, "k": 3,
        "transpose": None, "dtype": "f32", "algorithm": None, "count": 2, "duration_ns": duration_ns, "flops": 10, "bytes": 5,
        "gflops_per_s": 12.0, "of_product": 0.25, "gbytes_per_s": 6.0, "of_copy": 0.5, "intensity": 2.0, "bound": "copy",
        "of_roofline": 0.3, "reason": None,
    }  # fmt: skip
    return row | more


def found(*rows, ceilings=CEILINGS):
    whole = sum(row["duration_ns"] for row in rows)
    return {
        "by": "kernel", "rows": list(rows), "kernel_ns": whole, "known_ns": whole, "steps": 3, "step_ns": None,
        "ceilings": ceilings, "notes": [],
    }  # fmt: skip


def test_a_point_names_its_kernel_and_the_roof_is_that_of_the_ceilings():
    unknown = kernel("b", gflops_per_s=None)
    part = roofline([("one", found(kernel("a<script>\x1b"), unknown, kernel("c", 3_000_000)))])
    (side,) = part.data["sides"]
    first, last = side["points"]
    assert (first["x"], first["y"], first["row"], last["row"]) == (2.0, 12.0, anchor(0), anchor(2))
    assert first["about"][0] == "a<script>\\x1b"
    assert "2 executions, 20.0% of all kernels" in first["about"][-1]
    assert first["keys"] == {"kernel": "a<script>\\x1b", "layer": "fc1", "phase": "forward"}
    # the largest copy, 20 GB/s, meets 50 Gflop/s at 2.5 operations a byte
    assert side["line"]["points"] == [[1.0, 20.0], [2.5, 50.0], [5.0, 50.0]]
    assert "one: left out: 1 kernel without known operations or bytes" in part.note
    json.dumps(part.data, allow_nan=False)


def test_areas_are_shares_of_the_time_of_all_kernels():
    part = roofline([("one", found(kernel("a", 100), kernel("b", 400)))])
    small, large = (point["size"] - 8 for point in part.data["sides"][0]["points"])
    assert large / small == pytest.approx(2, rel=0.01), "four times the area"


def test_only_so_many_are_drawn_and_the_rest_is_said():
    part = roofline([("one", found(*(kernel(str(place)) for place in range(MOST + 7))))])
    assert len(part.data["sides"][0]["points"]) == MOST
    assert "7 kernels that took less" in part.note


def test_without_ceilings_or_kernels_there_is_no_roof_and_no_point():
    part = roofline([("one", found(kernel("a"), ceilings=None)), ("other", "no kernels pass"), ("empty", found())])
    assert [side["name"] for side in part.data["sides"]] == ["one"]
    assert part.data["sides"][0]["line"]["points"] == []
    assert "other: no kernels pass" in part.note


DRIVE = """<script>addEventListener("load", () => setTimeout(() => {
  const chart = document.getElementById("rooflines");
  const press = (key) => chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  press("ArrowDown"); press("ArrowDown"); press("Enter");
  const said = document.getElementById("rooflines-said").textContent;
  document.title = [location.hash, document.querySelector("tr:target code").textContent, said].join("|");
}, 700));</script>"""


@pytest.mark.slow
def test_keys_lead_to_the_row_of_a_point(result, tmp_path, browse):
    content = found(kernel("first"), kernel("second"), kernel("third"))
    path = tmp_path / "report.html"
    html.write_run(result, [], path, [measured.roofline(content)], [roofline([("one", content)])])
    document, console = browse(path, DRIVE)
    assert console == []
    hash_, row, said = re.search(r"<title>(.*?)</title>", document).group(1).split("|")
    assert (hash_, row) == (f"#{anchor(1)}", "second")
    assert said.startswith("second, fc1")
