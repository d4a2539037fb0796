"""CNTK's timeline and table of node times, on recorded files and on broken ones."""

import gzip
import json

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.cntk import profiler_tables as cntk_profiler
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "cntk"
TIMELINE = DATA / "lenet_train" / "operators.cntk.json"


def test_every_begin_finds_its_end():
    raw = json.loads(TIMELINE.read_text())
    table = cntk_profiler.read_timeline(TIMELINE)
    assert len(table) == len(raw) / 2
    assert table.attrs["unpaired"] == 0
    assert (table["end_ns"] >= table["start_ns"]).all()
    assert table["start_ns"].is_monotonic_increasing
    total = sum(event["ts"] if event["ph"] == "E" else -event["ts"] for event in raw)
    assert (table["end_ns"] - table["start_ns"]).sum() == 1000 * total


def test_nodes_have_a_name_and_a_direction_and_parts_of_a_minibatch_have_none():
    table = cntk_profiler.read_timeline(TIMELINE)
    parts = table[table["node"].isna()]
    assert set(parts["name"].str.lstrip("_")) == {"Minibatch Iteration", "Forward + Backward", "Weight Update"}
    assert set(parts["phase"].dropna()) == {"optimizer"}
    nodes = table[table["node"].notna()]
    assert set(nodes["phase"]) == {"forward", "backward"}
    assert (nodes["name"] == nodes["node"] + nodes["phase"].str.capitalize()).all()
    # three steps: every forward node of this network has one execution in each
    assert set(nodes[nodes["phase"] == "forward"].groupby("node").size()) == {3}


def test_repeated_nodes_of_a_loop_are_paired_one_by_one():
    table = cntk_profiler.read_timeline(DATA / "lstm_train" / "operators.cntk.json.gz")
    forward = table[(table["phase"] == "forward") & table["node"].str.startswith("StableSigmoid")]
    assert set(forward.groupby("node").size()) == {2 * 28}
    ordered = forward.sort_values("start_ns")
    assert (ordered["start_ns"].to_numpy()[1:] >= ordered["end_ns"].to_numpy()[:-1]).all()


def test_an_end_without_its_begin_is_counted_and_left_out(tmp_path):
    events = json.loads(TIMELINE.read_text())
    path = tmp_path / "lost.json"
    path.write_text(json.dumps(events[1:]))
    table = cntk_profiler.read_timeline(path)
    assert table.attrs["unpaired"] == 1
    assert len(table) == len(events) / 2 - 1


@pytest.mark.parametrize("content", [b"", b"[", b'{"a": 1}', b'[{"tid": 1}]', b"[1, 2]", TIMELINE.read_bytes()[:5000]])
def test_what_is_no_timeline_is_refused_with_the_files_name(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=r"broken\.json"):
        cntk_profiler.read_timeline(path)


def test_a_cut_compressed_timeline_is_refused(tmp_path):
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(TIMELINE.read_bytes())[:200])
    with pytest.raises(EvidenceError, match=r"cut\.json\.gz"):
        cntk_profiler.read_timeline(path)
    with pytest.raises(EvidenceError, match="No such file"):
        cntk_profiler.read_timeline(tmp_path / "absent.json")


def test_an_empty_timeline_is_an_empty_table(tmp_path):
    path = tmp_path / "none.json"
    path.write_text("[\n]\n")
    assert cntk_profiler.read_timeline(path).empty


def test_node_times_are_read_among_other_lines():
    table = cntk_profiler.parse_node_timing((DATA / "lenet_train" / "stderr.raw").read_text().splitlines()).set_index("node")
    assert len(table) == 21
    convolutions = table[table.index.str.startswith("Convolution")]
    assert len(convolutions) == 2
    assert (convolutions[["forward_ns", "backward_ns"]] > 0).all(axis=None)
    assert (convolutions["forward_count"] == convolutions["backward_count"]).all()
    line = "Plus429      forward avg 0.000171s, backward avg 1.500198s (fwd# 46|bwd# 45)"
    one = cntk_profiler.parse_node_timing(["Selected CPU as the process wide default device.", line]).iloc[0].to_dict()
    assert one == {
        "node": "Plus429", "forward_ns": 171000, "backward_ns": 1500198000, "forward_count": 46, "backward_count": 45,
    }  # fmt: skip


def test_a_stream_without_node_times_gives_an_empty_table():
    table = cntk_profiler.parse_node_timing(["nothing", ""])
    assert list(table.columns) == ["node", "forward_ns", "backward_ns", "forward_count", "backward_count"]
    assert table.empty
