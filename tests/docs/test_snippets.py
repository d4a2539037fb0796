"""Python that pages show does what they say."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kernelscope.analysis as ka
from kernelscope.analysis import formats
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import conform
from kernelscope.reports import comparison_tables

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)


def run(code):
    space = {}
    exec(compile(code, "page", "exec"), space)
    return space


def test_the_reader(tmp_path):
    reader = run(blocks("add-reader.md")[0])
    path = tmp_path / "device.csv"
    path.write_text("device,stream,kernel,start_us,duration_us\ncuda:0,7,ampere_sgemm_128x64_tn,10.5,2\ncuda:0,7,x,20,0.25\n")
    assert reader["matches"](read_head(path))
    assert not any(form.matches(read_head(path)) for form in formats.all_formats())
    trace = reader["read"](path)
    captures.finish(trace)
    assert trace.kernels["start_ns"].tolist() == [10_500, 20_000]
    assert trace.kernels["end_ns"].tolist() == [12_500, 20_250]
    assert trace.kernels["kind"].iloc[0] == "gemm"
    assert ka.breakdown(trace, by="kernel").table["time_ns"].sum() == 20_250 - 10_500
    path.write_text("device,stream,kernel,start_us,duration_us\ncuda:0,7,x,soon,2\n")
    with pytest.raises(ka.EvidenceError, match=r"device\.csv: a line is damaged"):
        reader["read"](path)


def test_the_analysis():
    random = np.random.default_rng(0)
    start, duration = random.integers(0, 5_000, 60), random.integers(1, 90, 60)
    rows = pd.DataFrame({"start_ns": start, "end_ns": start + duration, "duration_ns": duration, "count": 1})
    rows["device"] = ["cuda:0", "cuda:1"] * 30
    gaps = run(blocks("add-analysis.md")[0])["gaps"]
    found = gaps(ka.Trace(kernels=conform("kernels", rows))).set_index("device")
    for device, mine in rows.groupby("device"):
        ran = np.zeros(6_000, dtype=bool)  # nanosecond by nanosecond
        for begin, end in zip(mine["start_ns"], mine["end_ns"], strict=True):
            ran[begin:end] = True
        inside = ran[mine["start_ns"].min() : mine["end_ns"].max()]
        falls = np.flatnonzero(np.diff(inside.astype(int)) == -1)
        assert found.loc[device].tolist() == [inside.sum(), (~inside).sum(), len(falls)]
    with pytest.raises(ka.EvidenceError, match="no kernels"):
        gaps(ka.Trace())


def test_the_figure_and_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    result = json.loads((DATA / "reports/compare.json").read_text())
    comparison_tables.write_csv_folder(result, tmp_path / "out/lenet/tables")
    (tmp_path / "out/lenet/compare.json").write_text(json.dumps(result))
    drawn = run(blocks("add-report.md")[0])
    assert (tmp_path / "phases.png").stat().st_size > 5_000
    assert len(drawn["names"]) == 4
    layers = run(blocks("tables.md")[0])["layers"]
    assert isinstance(layers, pd.DataFrame)
    assert {f"{name}_time_ns" for name in drawn["names"]} <= set(layers)
