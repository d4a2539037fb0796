"""Which captures become one Trace: real ones of one job do, copies, other machines and other times are refused in one line."""

import copy
import gzip
import json
import os
import shutil

import pytest

from kernelscope.analysis.accounting.partition import partition
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import captures
from tests.places import ROOT, corpus

H200 = ROOT / "tests" / "data" / "gpu" / "h200"
CAPTURE = H200 / "mlp.pt.trace.json.gz"
B200 = "kineto/AMD-AGI__TraceLens__b200_eager_trace.json.gz"
H100 = "kineto/AMD-AGI__TraceLens__h100_timesformer.json.gz"
RANKS = "ranks/megatron_tp8/megatron_kineto_{}.json.gz"
SECOND, DAY = 1_000_000, 86_400_000_000  # microseconds


NVPROF = """==1234== NVPROF is profiling process 1234, command: ./train
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",75.0,3.000000,30,100.000000,90.000000,110.000000,"volta_sgemm_128x64_nn"
"""
NSYS = """Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
100.0,3000,2,1500.0,1500.0,1000,2000,707.1,volta_sgemm_128x64_nn
"""


def _read(*paths):
    with captures.reading_all(paths) as trace:
        return trace


def _refused(*paths):
    with pytest.raises(EvidenceError) as error:
        _read(*paths)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{paths[1]}: ")
    return line.removeprefix(f"{paths[1]}: ")


@pytest.fixture(scope="module")
def content():
    return json.loads(gzip.decompress(CAPTURE.read_bytes()))


def _changed(content, path, later=0, **header):
    """Write a capture with other keys, and times that are later by so many microseconds."""
    result = {**copy.deepcopy(content), **header}
    for event in result["traceEvents"]:
        if "ts" in event:
            event["ts"] += later
    path.write_text(json.dumps(result))
    return path


@pytest.mark.parametrize("how", ["copy", "link", "unpacked"])
def test_the_same_under_another_name(how, tmp_path):
    one, other = tmp_path / "one.json.gz", tmp_path / "other.json"
    shutil.copy(CAPTURE, one)
    if how == "unpacked":
        other.write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    else:
        (shutil.copy if how == "copy" else os.link)(one, other)
    assert _refused(one, other) == f"has the same content as {one} once unpacked; name one of them"


def test_the_same_without_a_timeline(tmp_path):
    for name in ("a.txt", "b.txt"):
        shutil.copy(corpus("nvprof/nanzifan__nvprof-result__cfd_print-gpu-summary.csv"), tmp_path / name)
    assert "has the same content as" in _refused(tmp_path / "a.txt", tmp_path / "b.txt")


@pytest.mark.parametrize("what", ["kernels", "operators"])
def test_the_same_work_written_anew(what, content, tmp_path):
    """A part of the events: some of the kernels, or the host's side without any."""
    one, category = _changed(content, tmp_path / "one.json"), {"kernels": "kernel", "operators": "cpu_op"}[what]
    kept = [event for event in content["traceEvents"] if event.get("cat") == category]
    part = _changed(dict(content, traceEvents=kept[: len(kept) // 3]), tmp_path / "part.json")
    assert _refused(one, part).endswith(f"of its {what} are also in {one}, at the same times; name one of them")


@pytest.mark.parametrize("how", ["moved", "rounded"])
def test_the_same_work_with_other_times(how, content, tmp_path):
    """Times moved by half a microsecond, or written in steps of ten."""
    other = _changed(content, tmp_path / "other.json", {"moved": 0.5, "rounded": 0}[how])
    changed = json.loads(other.read_text())
    for event in changed["traceEvents"]:
        if how == "rounded" and "ts" in event:
            event["ts"] = round(event["ts"], -1)
    other.write_text(json.dumps(changed))
    said = _refused(CAPTURE, other)
    assert said.startswith(f"holds the same work as {CAPTURE}: ")
    assert said.endswith("kernels of one run on the same streams as those of the other, at the same times; name one of them")


def _totals(text, timeline, tmp_path):
    """Return why a table of totals cannot go beside a timeline."""
    path = tmp_path / "totals.txt"
    path.write_text(text)
    return _refused(timeline, path)


@pytest.mark.parametrize("text", [NVPROF, NSYS])
def test_totals_of_kernels_are_not_added_to_a_timeline_that_has_them(text, tmp_path):
    said = _totals(text, CAPTURE, tmp_path)
    assert said == f"has totals of kernels, and {CAPTURE} has them on a timeline; name one of them"


def test_totals_of_a_processors_library_go_beside_a_timeline_of_a_gpu(tmp_path):
    path = tmp_path / "mkl.txt"
    call = "SGEMM(N,N,64,64,64,0x7f,0x7f,64,0x7f,64,0x7f,0x7f,64)"
    path.write_text(f"MKL_VERBOSE {call} 25.00us CNR:OFF Dyn:1 FastMM:1 TID:0 NThr:2\n")
    alone, both = captures.read(CAPTURE), _read(CAPTURE, path)
    assert len(both.kernels) == len(alone.kernels) + 1


def test_two_machines():
    one, other = corpus(B200), corpus(H100)
    said = _refused(one, other)
    assert said == (
        f"from another machine (cuda:0 is NVIDIA H100 80GB HBM3, but NVIDIA B200 in {one}); import each into its own folder; "
        "`kernelscope explain A B` compares two, `kernelscope ranks` analyses the ranks of a job"
    )


def test_one_machine_at_other_times(content, tmp_path):
    later = _changed(content, tmp_path / "later.json", 173 * DAY)
    assert _refused(CAPTURE, later).startswith(f"begins 172 days after {CAPTURE} ends; import each into its own folder; ")


def test_another_process_right_after(content, tmp_path):
    later = tmp_path / "later.json"
    text = _changed(content, later, SECOND).read_text()
    own = next(event["pid"] for event in content["traceEvents"] if event.get("cat") == "cuda_runtime")
    later.write_text(text.replace(f'"pid": {own},', '"pid": 4711,'))
    assert " and is from another process; import each" in _refused(CAPTURE, later)


def test_captures_that_name_no_process_are_no_windows_of_one(tmp_path):
    paths = [corpus(f"pairs/mx-cpu-gpu/{side}.json") for side in "ba"]
    said = _refused(*paths)
    assert said.startswith(
        f"begins 79.7 s after {paths[0]} ends, and it is unknown whether one process recorded both; import each"
    )


@pytest.mark.parametrize("later", [0.25, 30 * SECOND])
def test_a_copy_with_a_clock_that_was_moved(later, content, tmp_path):
    """Its times are written as doubles since 1970, which hold a quarter of a microsecond."""
    other = _changed(content, tmp_path / "moved.json", 5 * SECOND)
    changed, base = json.loads(other.read_text()), content["baseTimeNanoseconds"] / 1000
    for event in changed["traceEvents"]:
        if "ts" in event:
            event["ts"] = event["ts"] + base + later
    other.write_text(json.dumps({**changed, "baseTimeNanoseconds": 0}))
    count = sum(event.get("cat") == "kernel" for event in content["traceEvents"])
    what = f"its {count:,} kernels have the same durations and distances, at other times; name one of them"
    assert _refused(CAPTURE, other) == f"holds the same work as {CAPTURE}: {what}"


def test_two_ranks_with_the_same_work(content, tmp_path):
    """They say that they are two, on two devices."""
    paths = [
        _changed(content, tmp_path / f"{rank}.json", 5 * SECOND * rank, distributedInfo={"rank": rank, "world_size": 2})
        for rank in (0, 1)
    ]
    changed = json.loads(paths[1].read_text())
    for event in changed["traceEvents"]:
        if "device" in event.get("args", {}):
            event["args"]["device"] = 1
    paths[1].write_text(json.dumps(changed))
    assert len(_read(*paths).kernels) == 2 * len(captures.read(CAPTURE).kernels)


def test_windows_of_one_process_go_together_and_the_time_between_is_told(content, tmp_path):
    """The later one is the same program: one of its kernels lasts a nanosecond more."""
    later = _changed(content, tmp_path / "later.json", 5 * SECOND)
    changed = json.loads(later.read_text())
    next(event for event in changed["traceEvents"] if event.get("cat") == "kernel")["dur"] += 0.001
    later.write_text(json.dumps(changed))
    one, both = captures.read(CAPTURE), _read(CAPTURE, later)
    assert len(both.kernels) == 2 * len(one.kernels)
    assert both.info["warnings"][-1] == f"{later}: begins 4.89 s after {CAPTURE} ends; nothing is known about the time between"


def test_ranks_of_one_host_go_together():
    paths = [corpus(RANKS.format(rank)) for rank in range(3)]
    alone, together = [captures.read(path) for path in paths], _read(*paths)
    assert together.kernels.groupby("device", observed=True).size().to_dict() == {
        f"cuda:{rank}": len(trace.kernels) for rank, trace in enumerate(alone)
    }
    assert together.kernels["duration_ns"].sum() == sum(trace.kernels["duration_ns"].sum() for trace in alone)
    assert not any("time between" in line for line in together.info["warnings"])


def test_ranks_that_call_their_devices_by_one_name(content, tmp_path):
    ranks = [
        _changed(content, tmp_path / f"{rank}.json", 10 * rank, distributedInfo={"rank": rank, "world_size": 2})
        for rank in (0, 1)
    ]
    said = _refused(*ranks)
    assert said == f"rank 1 names its device cuda:0, and so does rank 0 in {ranks[0]}; `kernelscope ranks` keeps ranks apart"


@pytest.mark.parametrize(("model", "fits"), [("H200", True), ("NVIDIA H2...", True), ("Tesla V100-SXM2-16GB", False)])
def test_samples_are_of_the_same_devices(model, fits, tmp_path):
    samples = tmp_path / "smi.csv"
    samples.write_text(f"timestamp, index, name, power.draw [W]\n2026/11/26 12:00:00.000, 0, {model}, 60.00 W\n")
    if fits:
        assert len(_read(CAPTURE, samples).samples) == 1
    else:
        assert "from another machine (cuda:0 is Tesla V100-SXM2-16GB, but NVIDIA H200 in" in _refused(CAPTURE, samples)


def test_steps_of_two_ranks_at_a_time_are_one_step():
    """Each instant counts once: the wall is the first rank's, and kernels are those of both, by the trace's own durations."""
    paths = [corpus(RANKS.format(rank)) for rank in (0, 1)]
    events = [
        [event for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if event.get("cat") == "kernel"]
        for path in paths
    ]
    alone, both = partition(_read(paths[0])), partition(trace := _read(*paths))
    assert (both.step_ns, len(both.steps)) == (alone.step_ns, 1)
    assert both.totals["kernel_sum_ns"] == pytest.approx(sum(event["dur"] * 1e3 for own in events for event in own), abs=2000)
    assert both.totals["kernel_busy_ns"] <= both.totals["wall_ns"] == both.step_ns
    assert both.everything.loc[both.everything["cause"].isna(), "count"].sum() == sum(map(len, events))
    assert trace.steps["thread"].isin(trace.operators["thread"]).all()
    (said,) = trace.info["warnings"]
    assert said.startswith(f"steps are those of {paths[0]}, and the work of {paths[1]} during them is part of them")


def test_windows_that_overlap_share_kernels_and_are_refused(content, tmp_path):
    """One kernel in both is enough: it would count twice."""
    kernels = sorted(event["ts"] for event in content["traceEvents"] if event.get("cat") == "kernel")
    middle = kernels[len(kernels) // 2]
    paths = [tmp_path / "early.json", tmp_path / "late.json"]
    for path, first, last in ((paths[0], 0, middle), (paths[1], middle, kernels[-1])):
        kept = [event for event in content["traceEvents"] if event.get("cat") != "kernel" or first <= event["ts"] <= last]
        path.write_text(json.dumps({**content, "traceEvents": [event for event in kept if event.get("cat") != "cpu_op"]}))
    assert _refused(*paths) == (
        f"1 of its kernels are also in {paths[0]}, at the same times; name one of them, or windows that do not overlap"
    )
