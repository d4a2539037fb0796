"""Execution traces of PyTorch beside the captures of the same ranks: sizes that the captures do not tell."""

import json

import pandas as pd
import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks import execution_traces
from kernelscope.analysis.ranks.job import job
from tests.places import corpus

KINETO, TRACES = "ranks/param_dlrm8/kineto", "ranks/param_dlrm8/et"
# elements and bytes of each, as the nodes of dlrm_eg_0.json have them, in their order
SENT = [(6144, 4), (24, 8), (384, 4), (3392, 4)]
REDUCED = [(394241, 4), (112, 4), (226960, 4)]


def files(name):
    return sorted(corpus(name).glob("*.json.gz"))


def test_sizes_of_collectives_come_from_execution_traces():
    """Ranks give different amounts in an all-to-all: those of rank 0 stand there."""
    alone, result = job(files(KINETO), workers=1), job([*files(KINETO), *files(TRACES)], workers=2)
    unknown = [row for row in alone["collectives"] if row["bytes"] is None]
    assert [(row["operation"], row["count"]) for row in unknown] == [("all-reduce", 3)]
    reduced = {row["bytes"] for row in result["collectives"] if row["operation"] == "all-reduce"}
    assert reduced == {elements * size for elements, size in REDUCED}
    sent = {row["bytes"] for row in result["collectives"] if row["operation"] == "send and receive"}
    assert sent == {elements * size for elements, size in SENT}
    assert "execution traces give the sizes of 24 collectives" in result["notes"]
    assert result["parts"] == alone["parts"]


def test_operations_are_read_in_their_order():
    found = execution_traces.collectives(files(TRACES)[0])
    names = {"send and receive": "a", "all-reduce": "r"}
    assert "".join(names[operation] for operation, _ in found) == "aaaararr"
    assert [size for operation, size in found if operation == "all-reduce"] == [4 * elements for elements, _ in REDUCED]


def test_newer_traces_hold_values_in_an_object(tmp_path):
    tensor = [1, 2, 0, 1000, 2, "cuda:0"]
    nodes = [
        {"name": "record_param_comms", "inputs": {"values": [[tensor], 7, ["0", "default"], 0, "allreduce", [], [], 4]}},
        {
            "name": "record_param_comms",
            "inputs": {"values": [tensor, 8, 0, "_allgather_base"]},
            "outputs": {"values": [[tensor] * 4]},
        },
        {"name": "record_param_comms", "inputs": {"values": [9, 0, 0, "wait", [], []]}},
        {"name": "aten::mm", "inputs": {"values": ["allreduce", tensor]}},
    ]
    path = tmp_path / "et_0.json"
    path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": nodes}, indent=1))
    assert execution_traces.is_trace(path)
    assert execution_traces.collectives(path) == [("all-reduce", 2000), ("all-gather", 8000)]


@pytest.mark.parametrize(
    ("known", "told", "sizes"),
    [
        (["r", "a", "r"], [("a", 8), ("r", 4), ("r", 6)], [6, 8, 4]),  # begun elsewhere in the step
        (["r", "r"], [("r", 4), ("r", 6)], None),  # either turn would do
        (["r", "r"], [("r", 4), ("r", 4)], [4, 4]),
        (["r", "b"], [("r", 4), ("a", 6)], None),
        (["a", "r", "a", "r"], [("a", 1), ("r", 2)], [1, 2, 1, 2]),  # two steps
    ],
)
def test_the_one_turn_that_agrees_counts(known, told, sizes):
    table = pd.DataFrame({"operation": known, "bytes": pd.array([None] * len(known), dtype="Int64")})
    assert execution_traces._aligned(table, told) == sizes


def test_execution_traces_alone_are_no_job():
    with pytest.raises(EvidenceError, match="has no times; name the Kineto traces of the same run"):
        job(files(TRACES))
