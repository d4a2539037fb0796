"""XPlane captures of GPUs, TPUs and CPUs, recomputed by an independent walker."""

import itertools
import math
import re
from collections import Counter

import pytest

from kernelscope.analysis.formats.xplane import trace as xplane
from kernelscope.analysis.recordings import captures
from tests.analysis.formats.xplane.walker import planes_of
from tests.places import ROOT, corpus

OURS = sorted((ROOT / "tests/data/tensorflow").glob("*/operators.xplane.pb"))
GPU = "AMD-AGI__TraceLens__mi300_jax08_attention.xplane.pb"
STEERING = ("NoOp", "_Arg", "_Retval", "Identity", "Const", "StatefulPartitionedCall", "PartitionedCall", "While", "StopGradient")
TPU = "openxla__xprof__tpu_inference_2.xplane.pb"


def test_a_gpus_streams_are_its_kernels():
    path = corpus("tf/" + GPU)
    began, planes = planes_of(path)
    expected = []
    for _, _, lines in [found for found in planes if found[0] == "/device:GPU:0"]:
        for line, stream, events in lines:
            assert line.startswith("Stream #")
            for name, _, start, duration, stats in events:
                grid, block, shared = re.search(r"grid:(\S+) block:(\S+) .*group_mem:(\d+)", stats["kernel_details"]).groups()
                row = (name, began + start, duration, stream, stats["correlation_id"], grid, block, int(shared))
                expected.append(row)
    trace = xplane.read(path)
    trace.check()
    kernels = trace.kernels
    columns = ["name", "start_ns", "duration_ns", "thread", "correlation", "grid", "block", "shared_memory"]
    assert list(kernels[columns].itertuples(index=False, name=None)) == expected
    assert len(kernels) == 105
    assert set(kernels["device"]) == {"rocm:0"}
    assert (kernels["end_ns"] - kernels["start_ns"] == kernels["duration_ns"]).all()
    assert trace.info["clock"] == "wall"
    assert trace.info["framework"] == "jax"
    assert [row["device"] for row in trace.info["devices"]] == ["rocm:0"]
    assert any("7 devices without events" in note for note in trace.info["notes"])
    assert trace.diagnostics == {}


def test_the_operator_of_a_gpus_kernel_comes_from_its_statistics():
    path = corpus("tf/" + GPU)
    _, planes = planes_of(path)
    streams = [event for plane, _, lines in planes if plane == "/device:GPU:0" for _, _, events in lines for event in events]
    named = Counter(event[4]["name"].rsplit("/", 1)[-1] for event in streams if event[4].get("name"))
    found = Counter(xplane.read(path).kernels["operator"].astype("string").fillna(""))
    assert found >= named
    # of what XLA made itself the program tells: two reductions and a transposition in each of 3 steps; else its own name stands
    assert found - named == Counter({"": 18, "loop_convert_fusion": 6, "convert_element_type": 3, "reduce_max": 3, "a": 3})


def test_calls_of_hips_api_are_tied_to_their_kernels():
    path = corpus("tf/" + GPU)
    began, planes = planes_of(path)
    expected = [
        (name, began + start, began + start + duration, line_id, stats["correlation_id"])
        for plane, _, lines in planes if plane == "/host:CPU"
        for _, line_id, events in lines
        for name, _, start, duration, stats in events if name.startswith("hip")
    ]  # fmt: skip
    calls = xplane.read(path).calls
    assert list(calls[["name", "start_ns", "end_ns", "thread", "correlation"]].itertuples(index=False, name=None)) == expected
    assert set(calls["api"]) == {"runtime"}
    whole = captures.read(path, "xplane")
    assert whole.kernels["launch_ns"].notna().all()


def test_what_allocators_took_and_gave_back_is_the_memory():
    path = corpus("tf/" + GPU)
    began, planes = planes_of(path)
    expected = [
        (began + start, stats["allocation_bytes"] * (1 if name == "MemoryAllocation" else -1), stats["bytes_allocated"])
        for plane, _, lines in planes if plane == "/host:CPU"
        for _, _, events in lines
        for name, _, start, _, stats in events if name in ("MemoryAllocation", "MemoryDeallocation")
    ]  # fmt: skip
    memory = xplane.read(path).memory
    assert list(memory[["time_ns", "bytes", "allocated_bytes"]].itertuples(index=False, name=None)) == expected
    assert set(memory["device"]) == {"cpu", "rocm:0"}


def test_every_event_of_the_host_is_somewhere_once():
    path = corpus("tf/" + GPU)
    _, planes = planes_of(path)
    names = [event[0] for plane, _, lines in planes if plane == "/host:CPU" for _, _, found in lines for event in found]
    events = sum(not name.startswith("$") for name in names)  # functions of Python are host_lines
    trace = xplane.read(path)
    assert len(trace.ranges) + len(trace.calls) + len(trace.memory) + len(trace.operators) == events


def test_a_tpus_operations_are_its_kernels_and_its_asynchronous_copies_are_copies():
    """Only the first of four cores has its transfers recorded; on the others the waits for them stand for them."""
    path = corpus("tf/" + TPU)
    began, planes = planes_of(path)
    work, copied, waits = Counter(), [], Counter()
    for plane, _, lines in planes:
        for line, _, events in lines:
            for name, shown, start, duration, stats in events:
                if line == "XLA Ops" and shown.startswith(("copy-start", "copy-done")):
                    if " copy-done(" in name:  # its shape is that of what has arrived
                        where = "device to host" if "S(5)" in name.split(" copy-done(")[0] else "host to device"
                        waits[plane.replace("/device:TPU", "tpu"), where] += duration
                elif line == "XLA Ops":
                    work[plane.replace("/device:TPU", "tpu"), shown, began + start, duration] += 1
                elif line == "Async XLA Ops":
                    copied.append((began + start, duration, stats["bytes_accessed"], " copy-start(" in name))
    trace = xplane.read(path)
    trace.check()
    kernels = trace.kernels
    assert Counter(zip(kernels["device"], kernels["name"], kernels["start_ns"], kernels["duration_ns"], strict=True)) == work
    assert len(kernels) == 1213
    assert all(is_copy for *_, is_copy in copied)
    assert len(trace.syncs) == 600 + 4 * 600
    stand = trace.copies[trace.copies["device"] != "tpu:0"]
    assert stand["bytes"].isna().all()
    sums = stand.astype({"operation": "str"}).groupby(["device", "operation"], observed=True)["duration_ns"].sum()
    assert sums.to_dict() == {key: duration for key, duration in waits.items() if key[0] != "tpu:0"}
    copies = trace.copies[trace.copies["device"] == "tpu:0"]
    assert list(zip(copies["start_ns"], copies["duration_ns"], copies["bytes"], strict=True)) == [row[:3] for row in copied]
    assert set(copies["operation"]) == {"host to device", "device to host"}
    assert set(kernels[kernels["name"] == "all-reduce"]["kind"]) == {"communication"}
    modules = trace.ranges[trace.ranges["domain"].notna()]
    assert len(modules) == sum(len(found) for _, _, lines in planes for line, _, found in lines if line == "XLA Modules")
    marks = sum(len(found) for _, _, lines in planes for line, _, found in lines if line == "XLA TraceMe")
    assert trace.diagnostics == {"derived events not read": marks}


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.parent.name)
def test_operators_that_hold_no_other_are_kernels_where_only_the_cpu_computes(path):
    began, planes = planes_of(path)
    operators, leaves = Counter(), Counter()
    for plane, _, lines in planes:
        for _, line_id, events in lines if plane == "/host:CPU" else []:
            own = [
                (began + start, began + start + duration, *name.split(":"), line_id)
                for name, _, start, duration, _ in events
                if re.fullmatch(r"[^:]+:[A-Za-z_]\w*", name) and duration
            ]
            operators.update(own)
            own.sort(key=lambda row: (row[0], -row[1]))
            # sorted so, an operator holds another if and only if it holds the next one of its thread
            for row, following in itertools.pairwise([*own, (math.inf, math.inf)]):
                if following[1] > row[1] and row[3] not in STEERING:
                    leaves[row[0], row[1], row[3], row[4]] += 1
    trace = xplane.read(path)
    trace.check()
    table = trace.operators
    columns = (table["start_ns"], table["end_ns"], table["scope"], table["name"], table["thread"])
    assert Counter(zip(*columns, strict=True)) == operators
    kernels = trace.kernels
    found = Counter(zip(kernels["start_ns"], kernels["end_ns"], kernels["name"], kernels["thread"], strict=True))
    assert found == leaves
    assert set(kernels["device"]) == {"cpu"}
    assert trace.info["framework"] == "tensorflow"
    assert (trace.kernels["operator"] == trace.kernels["name"]).all()
