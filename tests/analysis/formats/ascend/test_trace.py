"""Chrome traces of Ascend NPUs, counted again from plain JSON."""

import json
from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal

import pytest

import kernelscope as ks
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import captures
from tests import places

CORPUS = places.CORPUS / "more"
NAME = "Ascend__msinsight__test_data_pytorch_text_level0_rank0_ascend_pt_ASCEND_PROFILER_OUTPUT_trace_view.json"
HOST, BASE = 77, 1_700_000_000_000_000  # us
HARDWARE, CANN, HCCL, OVERLAP = ((HOST << 10) | (index << 5) | 2 for index in (13, 7, 15, 23))


def nanoseconds(microseconds):
    return int((Decimal(str(microseconds)) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))


@pytest.fixture(scope="module")
def raw():
    path = CORPUS / NAME
    if not path.exists():
        pytest.skip("needs ../shared/corpus")
    return json.loads(path.read_text(), parse_float=Decimal)


@pytest.fixture(scope="module")
def trace(raw):
    return ks.read(CORPUS / NAME)


def tasks_of(raw, process):
    pids = {event["pid"] for event in raw if event["ph"] == "M" and event["args"].get("name") == process}
    return [event for event in raw if event["ph"] == "X" and event["pid"] in pids]


def test_every_task_is_a_kernel_a_copy_a_wait_or_part_of_a_collective(raw, trace):
    hardware, collectives = tasks_of(raw, "Ascend Hardware"), tasks_of(raw, "HCCL")
    assert (len(hardware), len(collectives)) == (533, 4)
    connections = {event["args"]["connection_id"] for event in collectives}
    parts = [event for event in hardware if event["args"]["connection_id"] in connections]
    assert trace.diagnostics["tasks of collectives, which stand for them"] == len(parts) == 296
    assert trace.diagnostics["tasks of collectives, ns"] == sum(nanoseconds(event["dur"]) for event in parts)
    is_collective = (trace.kernels["library"] == "hccl").to_numpy()
    assert is_collective.sum() == 4
    own = trace.kernels[~is_collective]
    syncs = trace.syncs["end_ns"] - trace.syncs["start_ns"]
    assert len(own) + len(trace.copies) + len(syncs) + len(parts) == 533
    times = own["duration_ns"].sum() + trace.copies["duration_ns"].sum() + syncs.sum()
    total = sum(nanoseconds(event["dur"]) for event in hardware)
    assert times + trace.diagnostics["tasks of collectives, ns"] == total
    assert round(total / 1e6, 1) == 214.5


def test_kernels_are_as_written(raw, trace):
    kinds = {"AI_CORE", "MIX_AIV", "DSA_SQE"}
    written = [event for event in tasks_of(raw, "Ascend Hardware") if event["args"]["Task Type"] in kinds]
    written += tasks_of(raw, "HCCL")
    rows = Counter((event["name"], nanoseconds(event["ts"]), nanoseconds(event["dur"])) for event in written)
    kernels = trace.kernels
    assert rows == Counter(zip(kernels["name"], kernels["start_ns"], kernels["duration_ns"], strict=True))
    assert set(kernels["device"]) == {"npu:0"}
    streams = {event["name"]: event["tid"] for event in written if event["pid"] != tasks_of(raw, "HCCL")[0]["pid"]}
    found = kernels[kernels["library"] == "cann"]
    assert all(streams[name] == thread for name, thread in zip(found["name"], found["thread"], strict=True) if name == "Conv2D1")
    assert set(kernels.loc[kernels["library"] == "hccl", "kind"]) == {"communication"}


def test_kernels_know_the_operator_and_the_layer_that_launched_them(raw, trace):
    starts = {event["id"]: event for event in raw if event["ph"] == "s" and event.get("cat") == "async_npu"}
    ends = [event for event in raw if event["ph"] == "f" and event.get("cat") == "async_npu"]
    operators = {(e["tid"], e["ts"]): e for e in raw if e.get("cat") == "cpu_op"}
    told = {nanoseconds(end["ts"]): operators[starts[end["id"]]["tid"], starts[end["id"]]["ts"]] for end in ends}
    kernels = trace.kernels
    assert kernels["launch_ns"].notna().all()
    for start, operator, launched, thread in zip(
        *(kernels[n] for n in ("start_ns", "operator", "launch_ns", "launch_thread")), strict=True
    ):
        event = told[start]
        assert (operator, thread) == (event["name"], event["tid"])
        assert nanoseconds(event["ts"]) <= launched <= nanoseconds(event["ts"]) + nanoseconds(event["dur"])
    convolution = kernels[(kernels["name"] == "Conv2D1").to_numpy()]
    assert list(convolution["layer"]) == ["DistributedDataParallel_0/AlexNet_0/Sequential_0/Conv2d_0"]
    assert list(trace.steps["step"]) == [50]
    assert (kernels["step"] == 50).all()


def test_what_is_derived_or_no_event_is_left_out_and_said(raw, trace):
    derived = len(tasks_of(raw, "Overlap Analysis"))
    assert trace.info["not_read"]["derived (overlap, step trace)"] == derived == 382
    assert trace.info["not_read"]["counters"] == sum(event["ph"] == "C" for event in raw)
    assert "warnings" not in trace.info
    assert trace.info["clock"] == "wall"


# --- traces made for the purpose ------------------------------------------------------------------------------------------


def names(process, text, threads=()):
    found = [{"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": text}}]
    return found + [{"ph": "M", "name": "thread_name", "pid": process, "tid": t, "args": {"name": n}} for t, n in threads]


def task(name, start, duration, kind, stream=2, connection=None, process=HARDWARE, **more):
    arguments = {"Task Type": kind, "Stream Id": stream} | ({} if connection is None else {"connection_id": connection}) | more
    return {
        "name": name,
        "pid": process,
        "tid": stream,
        "ts": f"{BASE + start}.000",
        "dur": duration,
        "ph": "X",
        "args": arguments,
    }


def call(name, start, duration, connection=None, thread=5, process=CANN, **more):
    arguments = {} if connection is None else {"connection_id": connection}
    event = {
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": f"{BASE + start}.000",
        "dur": duration,
        "ph": "X",
        "args": arguments,
    }
    return event | more


def written(tmp_path, *events):
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps([*names(HARDWARE, "Ascend Hardware"), *names(CANN, "CANN"), *names(HCCL, "HCCL"), *events]))
    return path


def test_without_a_queue_the_call_of_the_same_connection_launched_it(tmp_path):
    operator = call("aten::mm", 1, 50, thread=5, process=HOST, cat="cpu_op")
    trace = ks.read(written(
        tmp_path, operator, call("AscendCL@aclnnMm", 9, 30, 7), call("Node@launch", 10, 4, 7), call("AscendCL@aclrtFree", 20, 1),
        task("MatMulV3", 100, 5, "AI_CORE", connection=7),
    ))  # fmt: skip
    kernel = trace.kernels.iloc[0]
    assert (kernel["launch_ns"], kernel["launch_thread"], kernel["operator"]) == ((BASE + 9) * 1000, 5, "aten::mm")
    assert (kernel["device"], kernel["kind"], kernel["thread"]) == ("npu:2", "gemm", 2)
    assert len(trace.calls) == 3
    assert set(trace.calls["process"]) == {HOST}
    assert trace.info["source"]["tool"] == "torch_npu.profiler"


def test_types_tell_kernels_copies_and_waits(tmp_path):
    trace = ks.read(written(
        tmp_path, task("Cast", 1, 1, "AI_VECTOR_CORE"), task("trans_Cast_5", 2, 1, "AI_CPU"), task("x", 3, 1, "NEW_CORE"),
        task("MEMCPY_ASYNC", 4, 2, "SDMA", operation="host to device", **{"size(B)": 4096}),
            task("MEMCPY_ASYNC", 6, 1, "PCIE_DMA_SQE"),
        task("EVENT_WAIT", 8, 4, "EVENT_WAIT_SQE"), task("Notify_Wait", 9, 4, "NOTIFY_WAIT_SQE"),
            task("n", 10, 1, "PLACE_HOLDER_SQE"), task("Notify Wait", 11, 1, "Notify Wait"),
    ))  # fmt: skip
    assert list(trace.kernels["name"]) == ["Cast", "trans_Cast_5", "x"]
    assert trace.diagnostics["tasks of unknown types, taken for kernels"] == 1
    assert list(trace.copies["operation"]) == ["host to device", "other"]
    assert trace.copies["bytes"].iloc[0] == 4096
    assert trace.copies["bytes"].isna().iloc[1]
    assert len(trace.syncs) == 4
    assert trace.kernels["launch_ns"].isna().all()


def test_planes_of_collectives_are_not_counted_again(tmp_path):
    trace = ks.read(written(
        tmp_path, *names(HCCL, "Communication", [(0, "Group hccl_world_group Communication"), (1, "Plane 0")]),
        {**task("hcom_allReduce__1_0_1", 10, 20, "", 0, 5, HCCL), "args": {"connection_id": 5}},
        {**task("Notify_Wait", 10, 20, "", 1, process=HCCL), "args": {"notify_id": 4}},
        task("SDMA", 12, 3, "SDMA", 4, 5), task("Add", 40, 1, "AI_VECTOR_CORE"),
    ))  # fmt: skip
    assert sorted(trace.kernels["name"]) == ["Add", "hcom_allReduce__1_0_1"]
    assert trace.kernels.set_index("name")["thread"]["hcom_allReduce__1_0_1"] == 4
    assert trace.copies.empty
    assert trace.info["not_read"] == {"planes of collectives": 1}


def test_tasks_that_lost_their_arguments_are_left_out_and_told_by_every_command(tmp_path):
    collective = {**task("hcom_allReduce__1_0_1", 10, 20, "", 0, 5, HCCL), "args": {"connection_id": 5}}
    other = {**task("hcom_allReduce__1_0_2", 40, 20, "", 0, 6, HCCL), "args": {}}
    bare = {**task("SDMA", 13, 3, "SDMA", 4, 5), "args": {}}
    own, add = task("SDMA", 12, 3, "SDMA", 4, 5), task("Add", 70, 1, "AI_VECTOR_CORE")
    trace = captures.read(written(tmp_path, collective, other, own, bare, add))
    assert trace.kernels[["name", "duration_ns"]].values.tolist() == [
        ["Add", 1000], ["hcom_allReduce__1_0_1", 20_000], ["hcom_allReduce__1_0_2", 20_000],
    ]  # fmt: skip
    assert trace.copies.empty
    assert captures.lost(trace) == {
        "tasks without their arguments, left out": 1,
        "collectives without their connection, whose tasks count beside them": 1,
    }


def test_processes_that_nobody_knows_are_said(tmp_path):
    trace = ks.read(written(tmp_path, *names(4, "Some Accelerator"), call("work", 3, 9, process=4), task("Add", 1, 1, "AI_CORE")))
    assert trace.info["warnings"] == ["events that may be work are not read (1), in processes: Some Accelerator 1"]


def test_host_alone_is_refused(tmp_path):
    path = written(tmp_path, call("aten::mm", 1, 5, process=HOST, cat="cpu_op"))
    with pytest.raises(EvidenceError, match=r"trace_view\.json: .*without any NPU task; record with ProfilerActivity\.NPU"):
        ks.read(path)


def test_shapes_become_lists(tmp_path):
    arguments = {"Input Dims": "8,16;\r\n;\r\n16", "Input type": "float;\r\nScalar;\r\nfloat"}
    operator = call("aten::mm", 1, 50, process=HOST, cat="cpu_op") | {"args": arguments}
    trace = ks.read(written(tmp_path, operator, task("Add", 1, 1, "AI_CORE")))
    assert json.loads(trace.operators["shapes"].iloc[0]) == [[8, 16], [], [16]]
    assert json.loads(trace.operators["types"].iloc[0]) == ["float", "Scalar", "float"]


def test_damage_is_one_line(tmp_path):
    path = written(tmp_path, task("Add", 1, 1, "AI_CORE"))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(EvidenceError, match=r"trace_view\.json: not JSON, or cut short, at byte \d+"):
        ks.read(path)
