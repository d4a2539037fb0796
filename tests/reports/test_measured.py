"""The part of a run's page on its device: roofline and energy, where the run has them."""

from __future__ import annotations

from kernelscope.reports import html, measured, units

KERNEL = {
    "name": "sgemm<script>alert(1)</script>", "kind": "gemm", "layer": "fc1", "phase": "forward", "problem": "64x10", "m": 1,
    "n": 2, "k": 3, "transpose": None, "dtype": "f32", "algorithm": None, "count": 2, "duration_ns": 1_500_000, "flops": 10,
    "bytes": 5, "gflops_per_s": 12.345678, "of_product": 0.25, "gbytes_per_s": 6.25, "of_copy": 0.5, "intensity": 2.0,
    "bound": "copy", "of_roofline": 0.5, "reason": None,
}  # fmt: skip
CEILINGS = {
    "source": "measured", "framework": "pytorch", "device": "cpu", "threads": 2, "measured": "2026-11-22T03:00:00+00:00",
    "copies": [{"bytes": 1 << 20, "bytes_per_s": 2e10}], "products": [{"dtype": "f32", "flops_per_s": 5e10}],
}  # fmt: skip
STEP = {
    "source": "cuda:0", "energy_uj": 2_500_000, "low_uj": 2_400_000, "high_uj": 2_600_000, "net_uj": None, "step_ns": 8_000_000,
    "power_w": 312.5, "steady": True,
}  # fmt: skip
LAYERS = [
    {"layer": "conv1", "energy_uj": 2_000_000, "idle_uj": 400_000, "time_ns": 6_000_000, "reason": None},
    {"layer": "(not resolved)", "energy_uj": 500_000, "idle_uj": 100_000, "time_ns": 2_000_000, "reason": "too short"},
]


def roofline(rows: int = 1) -> measured.MeasuredPart:
    return measured.roofline({
        "by": "kernel", "rows": [KERNEL] * rows, "kernel_ns": 1_500_000 * rows, "known_ns": 1_500_000 * rows, "steps": 3,
        "step_ns": None, "ceilings": CEILINGS, "notes": ["a note"],
    })  # fmt: skip


def page(result, tmp_path, parse, parts):
    html.write_run(result, [], tmp_path / "run.html", parts)
    text = (tmp_path / "run.html").read_text(encoding="utf8")
    return text, parse(text).rows


def test_both_parts_are_on_the_page(result, tmp_path, parse):
    facts = {"averaged_ns": [25_000_000], "samples": 90, "gain": 1.01}
    parts = [roofline(), measured.energies([STEP], LAYERS, facts, None)]
    text, rows = page(result, tmp_path, parse, parts)
    assert '<section id="device"><h2>Roofline and Energy</h2>' in text
    assert "<script>alert" not in text
    row = next(row for row in rows if row and row[0].startswith("sgemm"))
    assert row[0].endswith("fc1 forward · gemm · 64x10")
    assert {"12.35", "25.0%", "6.25", "50.0%", "copy"} <= set(row)
    assert "ceilings (measured 2026-11-22: pytorch, cpu, 2 threads): products f32 50.0 Gflop/s" in text
    assert "mathdefault" not in text, "ticks are plain text"
    step = next(row for row in rows if row and row[0] == "cuda:0")
    assert {units.energy(2_500_000), units.watts(312.5)} <= set(step)
    assert "90 power samples, each the mean of 25 ms; samples and counter agree to 1.0%" in text
    assert any(row and row[0] == "(not resolved)" for row in rows)


def test_a_run_without_them_has_no_such_section(result, tmp_path, parse):
    text, _ = page(result, tmp_path, parse, [])
    assert 'id="device"' not in text
    assert 'href="#device"' not in text


def test_what_cannot_be_told_says_why(result, tmp_path, parse):
    parts = [measured.unavailable("Roofline", "no kernels"), measured.energies([STEP], [], None, "no kernels pass")]
    text, _ = page(result, tmp_path, parse, parts)
    assert "<li>no kernels</li>" in text
    assert "by layer: no kernels pass" in text


def test_numbers_sort_by_what_they_are():
    (view,) = roofline().views
    values = {column.title: cell.value for column, cell in zip(view.columns, view.rows[0], strict=True)}
    assert (values["duration (ms)"], values["Gflop/s"], values["of product"], values["flop/byte"]) == (
        1_500_000,
        12.345678,
        0.25,
        2.0,
    )


def test_long_rooflines_are_cut_with_a_word():
    part = roofline(measured.MOST + 5)
    assert len(part.views[0].rows) == measured.MOST
    assert part.lines[0] == "5 more rows are in `kernelscope roofline`"
