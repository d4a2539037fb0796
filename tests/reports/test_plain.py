"""What is written without rich is what rich would have written."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import kernelscope.analysis as ka
from kernelscope.analysis import imported
from kernelscope.reports import plain, terminal

CORPUS = Path(__file__).resolve().parents[2].parent / "shared/corpus"
CAPTURES = (
    "nvprof/josiahdavis__profiling-lm__net_1c98352da5.sql",
    "nvprof/nanzifan__nvprof-result__cfd_print-gpu-summary.csv",
    "kineto/AMD-AGI__TraceLens__torch_compile_triton_trace.json.gz",
    "kineto/facebookresearch__HolisticTraceAnalysis__cp_end_to_end_simple_add_input_trace.json.gz",
    "lineprof/arleyzhang__ssd.pytorch__train.py.lprof",
    "onednn/excerpt__uxlfoundation__oneDNN_issue832_dnnl_v1.6.log",
    "mxnet/sandeep-krishnamurthy__mxnet-profiler-demo__cpu_mnist_cnn_profile_output.json",
)
WIDE = "畳み込み"


def by_rich(drawn, width):
    stream = io.StringIO()
    Console(file=stream, width=width).print(drawn)
    return stream.getvalue()


def of_rows(by, rows, **more):
    whole = sum(row["time_ns"] for row in rows)
    shares = [
        {"count": 3, "duration_ns": row["time_ns"], "share": row["time_ns"] / max(whole, 1), "method": None} for row in rows
    ]
    full = [{**share, **row} for share, row in zip(shares, rows, strict=True)]
    return {"by": by, "step_ns": whole, "coverage": 0.5, "steps": 2, "rows": full, **more}


CASES = {
    "phases": of_rows("phase", [{"phase": "forward", "time_ns": 7_000_001}, {"phase": "backward", "time_ns": 2_999_999}]),
    "layers": of_rows("layer", [{"layer": f"conv{n}", "phase": "forward", "time_ns": 10 ** n, "method": "x"} for n in range(8)]),
    "one key of two": of_rows("layer", [{"layer": "a", "phase": None, "time_ns": 12}]),
    "more than are shown": of_rows("kind", [{"kind": f"k{n}", "phase": "x", "time_ns": 1000 + n} for n in range(75)]),
    "wide characters": of_rows("range", [{"range": WIDE, "time_ns": 5}, {"range": "narrow", "time_ns": 6}]),
    "markup and controls": of_rows("range", [{"range": "[bold]a[/]\x1b[31m\nb", "time_ns": 5}]),
    "without rows": of_rows("idle", []),
    "totals": of_rows(
        "kind", [{"kind": "gemm", "time_ns": 50_000_000_000}], window="totals", source={"tool": "nvprof", "version": "11"},
        totals={"kernel_sum_ns": 5, "kernel_busy_ns": 4, "wall_ns": 10},
    ),
}  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 120, 1000])
@pytest.mark.parametrize("case", CASES)
def test_it_is_what_rich_writes(case, width):
    written = plain.breakdown(CASES[case], width)
    assert written == by_rich(terminal.breakdown(CASES[case]), width) or (written is None and width == 60)


def test_what_has_to_wrap_is_left_to_rich():
    long = of_rows("range", [{"range": "r" * 90, "time_ns": 5}])
    assert plain.breakdown(long, 80) is None
    assert plain.breakdown(long, 160) == by_rich(terminal.breakdown(long), 160)
    kernels = of_rows("kernel", [{"kernel": "sgemm", "kind": "gemm", "time_ns": 5}])
    assert plain.breakdown(kernels, 160) is None


@pytest.mark.parametrize("name", CAPTURES)
def test_captures_of_others(name, tmp_path):
    """What they hold, and each of their tables, at the width of a pipe."""
    file = CORPUS / name
    if not file.exists():
        pytest.skip("recorded captures need ../shared/corpus")
    record = imported.write(ka.read(file), [file], tmp_path / "imported", "2026-11-23", "1")
    capture = imported.Imported(tmp_path / "imported")
    tables = capture.breakdowns()
    drawn = [(plain.capture(record, tables, 120), terminal.capture(record, tables))]
    for table in (capture.breakdown(part["by"]) for part in tables if part["rows"]):
        drawn.append((plain.breakdown(table, 120), terminal.breakdown(table)))
    assert all(text is None or text == by_rich(renderable, 120) for text, renderable in drawn)
    assert any(text is not None for text, _ in drawn)
