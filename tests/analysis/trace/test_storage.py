"""A Trace on disk comes back as it was, without the columns that hold nothing being written."""

import pandas as pd
import pyarrow.parquet as pq
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import TABLES, Trace, conform, storage


@pytest.fixture
def trace():
    times = {"start_ns": [1, 5], "end_ns": [4, 9]}
    numbers = pd.array([2**60 + 1, None], dtype="Int64")
    calls = {**times, "process": 7, "thread": 7, "api": "runtime", "name": ["cudaLaunchKernel", None], "correlation": numbers}
    kernels = {**times, "name": ["a", "b"], "duration_ns": [3, 4], "count": 1, "device": "cuda:0", "tensor_core": [None, True]}
    return Trace(
        calls=conform("calls", pd.DataFrame(calls)),
        kernels=conform("kernels", pd.DataFrame(kernels)),
        info={"framework": "x"},
        diagnostics={"odd": 1},
    )


def test_a_trace_comes_back_as_it_was(trace, tmp_path):
    storage.save(trace, tmp_path / "trace", key="k")
    back = storage.load(tmp_path / "trace")
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(back, name), getattr(trace, name), check_categorical=False)
    assert (back.info, back.diagnostics) == (trace.info, trace.diagnostics)
    assert storage.facts(tmp_path / "trace")["key"] == "k"
    assert back.calls["correlation"].iloc[0] == 2**60 + 1


def test_what_holds_nothing_is_not_written(trace, tmp_path):
    storage.save(trace, tmp_path / "trace")
    fields = {field.name: field.nullable for field in pq.read_schema(tmp_path / "trace" / "calls.parquet")}
    assert fields == {
        "start_ns": False, "end_ns": False, "process": False, "thread": False, "api": False, "name": True, "correlation": True,
    }  # fmt: skip
    assert "layer" in pq.read_schema(tmp_path / "trace" / "copies.parquet").names  # a table without rows says what it would hold


@pytest.mark.parametrize("rows", [slice(None), slice(1), slice(1, 2)])
def test_what_is_the_same_in_many_rows_is_written_once(trace, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(storage, "_MANY", 1)
    for name in ("calls", "kernels"):
        setattr(trace, name, getattr(trace, name).iloc[rows].reset_index(drop=True))
    trace.calls["name"] = trace.calls["name"].astype("string").fillna("cuLaunchKernel").astype("category")
    storage.save(trace, tmp_path / "trace")
    back = storage.load(tmp_path / "trace")
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(back, name), getattr(trace, name), check_categorical=False)
    fields = set(pq.read_schema(tmp_path / "trace" / "calls.parquet").names)
    assert not fields & {"process", "thread", "api"}
    assert fields == ({"start_ns", "end_ns", "name", "correlation"} if rows == slice(None) else {"start_ns"})


@pytest.mark.parametrize("same", ["[1]", '{"process": [1]}', '{"process": {}}', '{"process": "x"}', "{"])
def test_what_is_told_wrongly_of_it_is_said(trace, tmp_path, same):
    storage.save(trace, tmp_path / "trace")
    file = tmp_path / "trace" / "calls.parquet"
    table = pq.read_table(file)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, storage._SAME: same}), file)
    with pytest.raises(EvidenceError, match=r"the trace is damaged|column process"):
        storage.load(tmp_path / "trace")


def test_calls_without_names_are_damage(trace, tmp_path):
    storage.save(trace, tmp_path / "trace")
    file = tmp_path / "trace" / "calls.parquet"
    pq.write_table(pq.read_table(file).drop_columns("name"), file)
    with pytest.raises(EvidenceError, match="the trace is damaged \\(its calls have no names\\); make it again"):
        storage.load(tmp_path / "trace")
