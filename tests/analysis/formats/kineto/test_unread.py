"""What no table takes of a chrome trace: counted, said where it may be work, refused where only the host would be left."""

import json

import pytest

import kernelscope as ks
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.kineto import trace as kineto
from tests.commands import called
from tests.places import CORPUS

ASCEND = "Ascend__msinsight__test_data_pytorch_text_level0_rank0_ascend_pt_ASCEND_PROFILER_OUTPUT_trace_view.json"


def event(name, category, start, pid=1, tid=1, **arguments):
    found = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": 5, "args": arguments}
    return found if category is None else found | {"cat": category}


def label(kind, pid, text, tid=0):
    key = "labels" if kind == "process_labels" else "name"
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {key: text}}


HOST = [label("process_name", 1, "python"), label("process_labels", 1, "CPU"), event("aten::mm", "cpu_op", 1)]
KERNEL = event("gemm", "kernel", 9, 0, 7, correlation=1, device=0, stream=7)


def written(tmp_path, *events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": list(events)}))
    return path


def test_ascends_traces_are_read_by_another_format():
    path = CORPUS / "more" / ASCEND
    if not path.exists():
        pytest.skip("needs ../shared/corpus")
    raw = json.loads(path.read_text())
    hardware = {e["pid"] for e in raw if e["ph"] == "M" and e["args"].get("name") == "Ascend Hardware"}
    tasks = sum(e["ph"] == "X" and e["pid"] in hardware for e in raw)
    assert tasks == 533
    with pytest.raises(
        EvidenceError, match=r"trace_view\.json of Huawei's Ascend profiler .* 533 NPU tasks.*--format ascend-trace"
    ):
        kineto.read(path)
    assert ks.read(path).info["source"]["format"] == "ascend-trace"


@pytest.mark.parametrize(
    ("pid", "tid", "labels"),
    [
        (0, 7, [label("process_labels", 0, "GPU 0")]),
        (0, 7, [label("process_name", 0, "/device:XPU:0")]),
        (9, 3, [label("process_name", 9, "NPU"), label("thread_name", 9, "core", 3)]),
        (9, 3, [label("thread_name", 9, "Stream 3", 3)]),
        (0, "stream 7", []),
    ],
)
@pytest.mark.parametrize("category", [None, "new_kernel"])
def test_work_of_devices_alone_in_unknown_categories_is_refused(tmp_path, pid, tid, labels, category):
    path = written(tmp_path, *HOST, *labels, event("gemm", category, 3, pid, tid), event("gemm", category, 30, pid, tid))
    with pytest.raises(EvidenceError, match=r"^2 device events .* the host's side alone would mislead"):
        kineto.read(path)


def test_beside_kernels_it_is_a_warning(tmp_path):
    trace = kineto.read(written(
        tmp_path, *HOST, label("process_labels", 0, "GPU 0"), KERNEL, event("a", "new_kernel", 3, 0, 7), event("b", None, 4),
        event("c", "new_op", 5), event("d", "new_op", 6), event("f", "python_function", 7), event("o", "overhead", 7),
    ))  # fmt: skip
    assert trace.info["not_read"] == {"new_kernel": 1, "(no category)": 1, "new_op": 2, "python_function": 1, "overhead": 1}
    assert trace.info["warnings"] == [
        "events that may be operators or device work are not read (4, 1 on devices): new_op 2, new_kernel 1, (no category) 1"
    ]  # fmt: skip


def test_what_is_known_to_be_no_work_is_neither_refused_nor_warned_of(tmp_path):
    known = ("overhead", "cuda_profiler_range", "python_function", "Trace", "gpu_user_annotation")
    path = written(tmp_path, *HOST, label("process_labels", 0, "GPU 0"), *(event("x", name, 3, 0, 7) for name in known))
    assert "warnings" not in kineto.read(path).info
    assert "warnings" not in kineto.read(written(tmp_path, *HOST, *HOST[:2])).info


def test_what_bears_odd_names_is_no_device(tmp_path):
    odd = [label("process_name", 5, 17), label("process_labels", 5, None), label("thread_name", 5, ["stream 7"], 2)]
    trace = kineto.read(written(tmp_path, *HOST, *odd, {"ph": "M"}, event("x", "new", 3, 5, 2)))
    assert trace.info["not_read"] == {"new": 1}
    assert len(trace.operators) == 1


@pytest.mark.parametrize("command", ["breakdown", "export", "import", "explain"])
def test_every_command_says_what_is_not_read(tmp_path, command):
    path = written(tmp_path, *HOST, KERNEL, event("c", "new_op", 20))
    options = {
        "breakdown": ["--by", "kernel"], "export": ["--format", "markdown", "-o", str(tmp_path / "out.md")],
        "import": ["-o", str(tmp_path / "out")], "explain": [str(path)],
    }[command]  # fmt: skip
    told = [line for line in called(command, path, *options).stderr.splitlines() if "not read" in line]
    assert told == ["kernelscope: warning: events that may be operators or device work are not read (1): new_op 1"] * (
        2 if command == "explain" else 1
    )
    if command == "import":
        for name, more in (("report", []), ("export", ["--format", "markdown", "-o", str(tmp_path / "again.md")])):
            assert "new_op 1" in called(name, tmp_path / "out", *more).stderr
