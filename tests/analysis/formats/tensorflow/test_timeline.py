"""Timelines of TensorFlow 1's RunMetadata, recomputed with json."""

import gzip
import json
from collections import Counter

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import chrome_json
from kernelscope.analysis.files.head import read_head
from kernelscope.analysis.formats.tensorflow import timeline as tensorflow_timeline
from kernelscope.analysis.recordings import captures
from tests import places

CORPUS = places.CORPUS / "tf"
NAMES = (
    "feeddict_timeline_01.json", "mnist_xla_TF-build_timeline.ctf.json", "mnist_xla_v1_timeline.ctf.json", "timeline.ctf.json",
    "timeline_base.ctf.json", "timeline_base.json", "timeline_xla.ctf.json",
)  # fmt: skip
GPU = ("feeddict_timeline_01.json", "mnist_xla_TF-build_timeline.ctf.json", "mnist_xla_v1_timeline.ctf.json", "timeline.ctf.json",
       "timeline_xla.ctf.json")  # fmt: skip


def of_corpus(name):
    path = CORPUS / f"aistein__dlprof__{name}"
    if not path.exists():
        pytest.skip("a timeline of other people: needs ../shared/corpus")
    return path


def rows_of(path):
    """Return (process, type, node, start_ns, duration_ns) of every execution."""
    events = json.loads(path.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    return [
        (names[e["pid"]].removesuffix(" Compute"), e["args"]["op"], e["args"]["name"], e["ts"] * 1000, e["dur"] * 1000)
        for e in events if e["ph"] == "X"
    ]  # fmt: skip


def found_in(table):
    return Counter(zip(table["start_ns"], table["duration_ns"], strict=True))


@pytest.mark.parametrize("name", GPU)
def test_work_of_a_gpu_counts_once(name):
    path = of_corpus(name)
    rows = rows_of(path)
    kernels = Counter(row[3:] for row in rows if row[0].endswith("stream:all"))
    copies = Counter(row[3:] for row in rows if row[0].endswith("/memcpy"))
    streams = Counter((row[0].rsplit(":", 1)[1], *row[3:]) for row in rows if "/stream:" in row[0] and not row[0].endswith("all"))
    trace = tensorflow_timeline.read(path)
    trace.check()
    assert found_in(trace.kernels) == kernels
    assert found_in(trace.copies) == copies
    work = [
        (str(row.thread), row.start_ns, row.duration_ns) for table in (trace.kernels, trace.copies) for row in table.itertuples()
    ]
    assert Counter(work) == streams
    assert trace.diagnostics["duplicates on stream:all and memcpy"] == kernels.total() + copies.total()
    per_type = Counter()
    for row in rows:
        per_type[row[1]] += row[4] * row[0].endswith("stream:all")
    assert dict(trace.kernels.groupby(trace.kernels["name"].astype("str"))["duration_ns"].sum()) == dict(+per_type)
    assert set(trace.kernels["device"]) == {"cuda:0"}


@pytest.mark.parametrize("name", NAMES)
def test_the_hosts_rows_are_operators(name):
    path = of_corpus(name)
    host = Counter(row[1:] for row in rows_of(path) if "/job:" in row[0])
    trace = tensorflow_timeline.read(path)
    table = trace.operators
    spans = zip(table["name"], table["scope"], table["start_ns"], table["end_ns"] - table["start_ns"], strict=True)
    assert Counter(spans) == host
    assert trace.info["clock"] == "wall"
    assert trace.info["framework"] == "tensorflow"


@pytest.mark.parametrize("name", ["timeline_base.ctf.json", "timeline_base.json"])
def test_without_a_gpu_operators_that_compute_are_kernels(name):
    path = of_corpus(name)
    idle = ("NoOp", "_Arg", "_Retval", "Const", "VariableV2", "Identity", "_Send", "_Recv", "Placeholder")
    expected = Counter(row[1:] for row in rows_of(path) if row[1] not in idle)
    kernels = tensorflow_timeline.read(path).kernels
    assert found_in(kernels) == Counter(key[2:] for key in expected.elements())
    assert Counter(kernels["name"]) == Counter(key[0] for key in expected.elements())
    assert set(kernels["device"]) == {"cpu"}


def timeline(*rows, **processes):
    """Build a timeline's text from executions (process, type, node, start us, duration us) and other events."""
    names = list(dict.fromkeys([row[0] for row in rows if isinstance(row, tuple)]))
    events = [
        {"name": "process_name", "ph": "M", "pid": names.index(name), "args": {"name": f"{name} Compute"}} for name in names
    ]
    for row in rows:
        if isinstance(row, tuple):
            process, kind, node, start, duration = row
            args = {"name": node, "op": kind}
            row = {
                "ph": "X",
                "cat": "Op",
                "name": kind,
                "pid": names.index(process),
                "tid": 0,
                "ts": start,
                "dur": duration,
                "args": args,
            }
        events.append(row)
    return json.dumps({"traceEvents": events})


def read(tmp_path, text):
    path = tmp_path / "timeline.json"
    path.write_text(text)
    assert tensorflow_timeline.matches(read_head(path))
    trace = tensorflow_timeline.read(path)
    trace.check()
    return trace


def test_work_on_stream_all_alone_is_kept_without_a_stream(tmp_path):
    trace = read(tmp_path, timeline(
        ("/gpu:0/stream:all", "MatMul", "a/MatMul", 1, 2), ("/gpu:0/memcpy", "MEMCPYDtoH", "edge", 4, 1),
        ("/gpu:0/stream:all", "MEMCPYDtoH", "edge", 4, 1),
    ))  # fmt: skip
    assert trace.kernels[["name", "layer", "device"]].values.tolist() == [["MatMul", "a", "cuda:0"]]
    assert trace.kernels["thread"].isna().all()
    assert trace.copies["operation"].tolist() == ["device to host"]
    assert trace.diagnostics == {"duplicates on stream:all and memcpy": 1, "device rows on no stream": 2}


def test_equal_executions_on_two_streams_both_count(tmp_path):
    twins = [(f"/device:GPU:0/stream:{stream}", "Relu", "r", 5, 2) for stream in ("13", "14", "all", "all")]
    trace = read(tmp_path, timeline(*twins))
    assert trace.kernels["thread"].tolist() == [13, 14]
    assert trace.diagnostics == {"duplicates on stream:all and memcpy": 2}


def test_rocm_names_the_kernel_and_memory_counts_from_zero(tmp_path):
    text = timeline(
        ("/device:GPU:1/stream:2", "Conv2D", "c/Conv2D", 1, 2),
        {"ph": "C", "cat": "Memory", "name": "GPU_0_bfc", "pid": 9, "tid": 0, "ts": 3, "args": {"GPU_0_bfc": 512}},
        {"ph": "C", "cat": "Memory", "name": "cpu", "pid": 9, "tid": 0, "ts": 4, "args": {"cpu": 64}},
        {"ph": "C", "cat": "Memory", "name": "GPU_0_bfc", "pid": 9, "tid": 0, "ts": 5, "args": {"GPU_0_bfc": 128}},
    )
    trace = read(tmp_path, text.replace('"op": "Conv2D"', '"op": "Conv2D", "kernel": "miopenGcn"'))
    assert trace.kernels[["name", "operator"]].values.tolist() == [["miopenGcn", "Conv2D"]]
    assert trace.memory[["device", "bytes", "allocated_bytes"]].values.tolist() == [
        ["cuda:0", 512, 512],
        ["cpu", 64, 64],
        ["cuda:0", -384, 128],
    ]


def test_a_gpu_without_streams_has_no_kernels_and_says_why(tmp_path):
    trace = read(tmp_path, timeline(("/job:localhost/replica:0/task:0/device:GPU:0", "MatMul", "m", 1, 2)))
    assert trace.kernels.empty
    assert "CUPTI" in trace.info["unavailable"]["kernels"]


def test_odd_events_are_counted_and_a_compressed_file_reads_the_same(tmp_path):
    text = timeline(
        ("/job:w/device:CPU:0", "MatMul", "m", 1, 2), ("/job:w/device:CPU:0", "MatMul", "m", 4, -2),
        {"ph": "s", "pid": 0, "tid": 0, "ts": 1, "id": 0, "name": "m"},
        {"ph": "N", "pid": 0, "tid": 0, "ts": 1, "id": 0, "name": "m"},
        {"ph": "z", "name": "?"},
    )  # fmt: skip
    trace = read(tmp_path, text)
    assert trace.diagnostics == {
        "executions without a time": 1, "dependencies not read": 1, "lives of tensors not read": 1, "other events not read": 1,
    }  # fmt: skip
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(text.encode()))
    assert tensorflow_timeline.matches(read_head(packed))
    assert tensorflow_timeline.read(packed).kernels.equals(trace.kernels)


def test_work_of_a_gpu_without_its_arguments_is_left_out_and_told_by_every_command(tmp_path):
    rows = json.loads(timeline(*[(f"/gpu:0/stream:{stream}", "MatMul", "m", at, 2) for stream in ("13", "all") for at in (1, 5)]))
    del rows["traceEvents"][2]["args"]
    trace = read(tmp_path, json.dumps(rows))
    assert trace.kernels["duration_ns"].tolist() == [2000, 2000]
    assert captures.lost(trace)["executions on a GPU without their arguments, left out"] == 1


def test_an_execution_whose_phase_is_damaged_is_told_by_every_command(tmp_path):
    rows = json.loads(timeline(*[("/job:w/device:CPU:0", "MatMul", "m", start, 2) for start in (1, 5, 9)]))
    rows["traceEvents"][2]["ph"] = "Q"
    trace = read(tmp_path, json.dumps(rows))
    assert trace.kernels["duration_ns"].tolist() == [2000, 2000]
    assert trace.diagnostics == captures.lost(trace) == {"executions of which ph is damaged": 1}


@pytest.mark.parametrize("odd", [None, 5, [], {"ph": 1}, {"ph": "X", "ts": 1e300}])
def test_what_is_no_event_is_left_out_and_told_by_every_command(tmp_path, odd):
    trace = read(tmp_path, timeline(("/job:w/device:CPU:0", "MatMul", "m", 1, 2), odd, ("/job:w/device:CPU:0", "Add", "a", 4, 3)))
    assert trace.kernels["duration_ns"].tolist() == [2000, 3000]
    assert trace.diagnostics == captures.lost(trace) == {chrome_json.ODD: 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"traceEvents": [', "cut short"), ('{"traceEvents": [{"ph": 1}]}', "not a timeline"), ("{}", "no list traceEvents"),
        ('{"traceEvents": [{"ph": "X", "ts": 1e300}]}', "not a timeline"), ("[" * 100000, "cut short|nested too deeply"),
        ('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1, "args": []}]}', "not a timeline"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused_by_name(tmp_path, content, said):
    path = tmp_path / "damaged.json"
    path.write_text(content)
    with pytest.raises(EvidenceError, match=said) as raised:
        tensorflow_timeline.read(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
