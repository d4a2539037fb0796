"""The reader of mx.profiler's dumps, on a dump of this project, on small ones made up, and on the corpus where it is there."""

import gzip
import json
from collections import Counter

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.mxnet import tables as mxnet_profiler
from tests import places
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "mxnet"
CORPUS = places.CORPUS / "mxnet"
DUMP = DATA / "lenet-train" / "operators.mxnet.json.gz"


def event(phase, ts, name="Convolution", tid=1, pid=0, **more):
    return {"name": name, "cat": "operator", "ph": phase, "ts": ts, "pid": pid, "tid": tid, **more}


def parse(*events):
    return mxnet_profiler.parse(json.dumps({"traceEvents": list(events), "displayTimeUnit": "ms"}).encode())


def expected_of(content):
    """Return (name, start, duration, asynchronous) of all pairs, found one after another with stacks."""
    stacks, found = {}, []
    for row in json.loads(content)["traceEvents"]:
        if row["ph"] not in "BEbe":
            continue
        key = (row["pid"], row["tid"], row["ph"] in "be")
        if row["ph"] in "Bb":
            stacks.setdefault(key, []).append(row)
        else:
            begin = stacks[key].pop()
            assert begin["name"] == row["name"]
            found.append((row["name"], begin["ts"] * 1000, (row["ts"] - begin["ts"]) * 1000, key[2]))
    return Counter(found)


def check_against_stacks(path):
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    table = mxnet_profiler.read(path)
    rows = zip(table["name"], table["start_ns"], table["duration_ns"], table["asynchronous"], strict=True)
    assert Counter(rows) == expected_of(content)
    assert table.attrs["unpaired"] == 0
    return table


def test_pairs_of_a_recorded_dump_are_those_that_stacks_find():
    table = check_against_stacks(DUMP)
    operators = table[~table["asynchronous"]]
    assert set(operators["category"]) == {"operator"}
    assert set(operators["device"]) == {"cpu/0"}
    assert (operators["name"] == "_backward_Convolution").sum() == 2 * 6


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_pairs_of_the_corpus_are_those_that_stacks_find(kind):
    found = sorted(CORPUS.glob(f"*{kind}_mnist*.json"))
    if not found:
        pytest.skip(f"no corpus at {CORPUS}")
    table = check_against_stacks(found[0])
    operators = table[~table["asynchronous"]]
    assert ("gpu/0" in set(operators["device"])) == (kind == "gpu")
    assert table.attrs["other_events"] > 1000  # counters of memory and of API calls
    assert table[table["category"] == "MXNET_C_API"]["asynchronous"].all()


def test_nested_pairs_of_one_thread_keep_apart():
    table = parse(event("B", 10, "outer"), event("B", 12, "inner"), event("E", 15, "inner"), event("E", 20, "outer"))
    assert list(zip(table["name"], table["start_ns"], table["duration_ns"], strict=True)) == [
        ("outer", 10_000, 10_000), ("inner", 12_000, 3_000),
    ]  # fmt: skip


def test_threads_do_not_mix_and_hashes_of_64_bits_get_small_numbers():
    big = 2**64 - 3
    table = parse(event("B", 1, tid=big), event("B", 2, tid=7), event("E", 5, tid=big), event("E", 9, tid=7))
    assert list(table["thread"]) == [0, 1]
    assert list(table["duration_ns"]) == [4_000, 7_000]


def test_what_has_no_partner_is_counted():
    table = parse(event("E", 1), event("B", 2), event("E", 3), event("B", 4))
    assert list(table["start_ns"]) == [2_000]
    assert table.attrs["unpaired"] == 2


def test_a_dump_without_events_is_an_empty_table():
    table = parse({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "cpu/0"}})
    assert table.empty
    assert "start_ns" in table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"traceEvents": [{"ph": "B", "na', "cut short"),
        (b'{"schemaVersion": 1}', "no list traceEvents"),
        (b'{"traceEvents": [{"ph": "B", "ts": "soon"}]}', "not a dump of mx.profiler"),
    ],
)
def test_damaged_and_foreign_files_are_refused_by_name(tmp_path, content, message):
    path = tmp_path / "dump.json"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=message) as raised:
        mxnet_profiler.read(path)
    assert str(path) in str(raised.value)


def test_damaged_compression_is_refused_by_name(tmp_path):
    path = tmp_path / "dump.json.gz"
    path.write_bytes(DUMP.read_bytes()[:500])
    with pytest.raises(EvidenceError, match=r"dump\.json\.gz.*cut short"):
        mxnet_profiler.read(path)
