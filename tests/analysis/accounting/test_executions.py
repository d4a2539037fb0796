"""Single executions in breakdowns by kernel: mean, median, shortest and longest, recounted from the capture's own rows."""

import re
import sqlite3
import statistics
from collections import defaultdict

import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis.trace import Trace, conform
from tests.places import corpus

CAPTURE = "nsys/GindaChen__nsys-ai__h100_2gpu_1s_v1.sqlite"


_COPIES = {1: "host to device", 2: "device to host", 8: "device to device"}  # CUPTI's copyKind


def test_every_kernel_and_copy_of_an_export_as_plain_sql_finds_it():
    path = corpus(CAPTURE)
    found = defaultdict(list)
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as database:
        names = dict(database.execute("SELECT id, value FROM StringIds"))
        for name, ns in database.execute('SELECT demangledName, "end" - start FROM CUPTI_ACTIVITY_KIND_KERNEL'):
            found[names[name]].append(ns)
        for kind, ns in database.execute('SELECT copyKind, "end" - start FROM CUPTI_ACTIVITY_KIND_MEMCPY'):
            found[f"(device: copy {_COPIES[kind]})"].append(ns)
        sets = database.execute('SELECT "end" - start FROM CUPTI_ACTIVITY_KIND_MEMSET')
        found["(device: memory set)"] += [ns for (ns,) in sets]
    table = ks.breakdown(ks.read(path), "kernel").table
    alone = table[~table["kernel"].duplicated(keep=False) & table["mean_ns"].notna()]
    assert len(alone) > 10
    assert {f"(device: copy {way})" for way in _COPIES.values()} <= set(alone["kernel"])
    for row in alone.to_dict("records"):
        ns = found[row["kernel"]]
        expected = [statistics.mean(ns), statistics.median(ns), min(ns), max(ns)]
        assert [row[name] for name in ("mean_ns", "median_ns", "min_ns", "max_ns")] == pytest.approx(expected, abs=0.5)
        assert len(ns) == 1 or row["std_ns"] == pytest.approx(statistics.stdev(ns), abs=0.5)  # as nsys's StdDev


def test_calls_of_one_operator_are_one_row_by_range():
    """PyTorch's emit_nvtx writes the arguments of each call into the name of its range."""
    path = corpus(CAPTURE)
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as database:
        texts = [row[0] for row in database.execute("SELECT DISTINCT text FROM NVTX_EVENTS WHERE text IS NOT NULL")]
    names = {re.split(r", (?:seq|op_id|sizes) = ", text)[0] for text in texts}
    table = ks.breakdown(ks.read(path), "range").table
    named = set(table["range"].dropna()) - {"(no range)"}
    assert len(names) < len(texts) / 10
    assert named <= names
    assert {"aten::mm", "aten::copy_"} <= named


def test_rows_are_told_apart_by_all_that_a_row_is_of():
    same = {"count": 1, "device": "cuda:0", "name": "gemm", "kind": "gemm"}
    rows = [
        {**same, "start_ns": start, "end_ns": start + ns, "duration_ns": ns, "layer": layer}
        for start, ns, layer in ((0, 10, "a"), (100, 30, "a"), (200, 80, "a"), (300, 7, "b"))
    ]
    table = ks.breakdown(Trace(kernels=conform("kernels", rows)), "layer-kernel").table
    found = {row["layer"]: [row[f"{name}_ns"] for name in ("mean", "median", "min", "max")] for row in table.to_dict("records")
             if row["kernel"] == "gemm"}  # fmt: skip
    assert found == {"a": [40, 30, 10, 80], "b": [7, 7, 7, 7]}
    host = table[table["kernel"].str.startswith("(")]
    assert len(host)
    assert host[["mean_ns", "median_ns", "min_ns", "max_ns"]].isna().all(axis=None)


def test_of_several_executions_as_one_row_only_the_mean_is_known():
    rows = [{"name": "gemm", "start_ns": 0, "end_ns": 90, "duration_ns": 90, "count": 3, "device": "cpu"}]
    row = ks.breakdown(Trace(kernels=conform("kernels", rows)), "kernel").table.iloc[0]
    assert row["mean_ns"] == 30
    assert pd.isna(row["median_ns"])


def test_operations_per_second_are_of_what_is_known():
    same = {"count": 1, "device": "cpu", "kind": "gemm", "library": "mkl", "dtype": "f32"}
    rows = [
        {**same, "name": "gemm", "start_ns": 0, "end_ns": 2_000, "duration_ns": 2_000, "m": 100, "n": 200, "k": 50},
        {**same, "name": "gemm", "start_ns": 3_000, "end_ns": 9_000, "duration_ns": 6_000, "m": 100, "n": 200, "k": 100},
        {**same, "name": "gemm", "start_ns": 10_000, "end_ns": 19_000, "duration_ns": 9_000},
        {**same, "name": "add", "kind": "elementwise", "start_ns": 20_000, "end_ns": 21_000, "duration_ns": 1_000},
    ]
    table = ks.breakdown(Trace(kernels=conform("kernels", rows)), "kernel").table.set_index("kernel")
    assert table.loc["gemm", "gflops_per_s"] == (2 * 100 * 200 * 50 + 2 * 100 * 200 * 100) / 8_000
    assert pd.isna(table.loc["add", "gflops_per_s"])
    assert pd.isna(table.loc["(host: unknown)", "gflops_per_s"])


def test_totals_have_what_their_source_tells_of_single_executions():
    columns = ("name", "count", "duration_ns", "median_ns", "min_ns", "max_ns", "std_ns")
    rows = [("gemm", 3, 900, 310, 200, 390, 95), ("copy", 2, 30, 15, 10, 20, 7), ("copy", 1, 8, None, None, None, None)]
    rows += [("add", 4, 40, None, None, None, None), ("add", 2, 20, 10, 9, 11, 1)]
    kernels = conform("kernels", [dict(zip(columns, row, strict=True)) for row in rows])
    table = ks.breakdown(Trace(kernels=kernels, info={"clock": "none"}), "kernel").table.set_index("kernel")
    told = table[["mean_ns", "median_ns", "min_ns", "max_ns", "std_ns"]].astype(object).where(lambda cell: cell.notna(), None)
    assert told.loc["gemm"].tolist() == [300, 310, 200, 390, 95]
    assert told.loc["copy"].tolist() == [13, None, 8, 20, None], "a median of several is not known, their extremes are"
    assert told.loc["add"].tolist() == [10, None, None, None, None]
