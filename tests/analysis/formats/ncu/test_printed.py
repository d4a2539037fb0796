"""Nsight Compute's tables, counted again with Python's own parser."""

import csv
import json
from collections import Counter

import pytest

import kernelscope as ks
from kernelscope.analysis.device import counters, occupancy
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import captures
from tests import places

CORPUS = places.CORPUS / "more"
DETAILS = CORPUS / "petebachant__clima-gpu-profiling__results_ncu_baseline-details.csv"
HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
KERNEL = '"{0}","12","python","127.0.0.1","{1}","1","7","(128, 1, 1)","(4, 2, 1)","0","9.0",'
RAW = (
    HEAD + '"dram__bytes.sum","gpu__time_duration.sum","launch__registers_per_thread","launch__shared_mem_per_block_dynamic",'
    '"launch__shared_mem_per_block_static","sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",'
    '"sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"\n'
    '"","","","","","","","","","","","Mbyte","usecond","register/thread","Kbyte/block","byte/block","%","%","%"\n'
    + KERNEL.format(0, "gemm(float *, int)") + '"1.5","1,024.5","32","16.38","0","80","60.5","25"\n'
    + KERNEL.format(1, "gemm(float *, int)") + '"0.5","1,024.5","32","16.38","0","40","20.5","75"\n'
    + KERNEL.format(2, "add<int>(T1 *)") + '"2","3","16","0","4","N/A","n/a","50"\n'
)  # fmt: skip


def test_a_public_table_counted_again():
    if not DETAILS.exists():
        pytest.skip("needs ../shared/corpus")
    lines = list(csv.reader(DETAILS.read_text(errors="replace").splitlines()))
    place = {name: number for number, name in enumerate(lines[0])}
    metrics = [line for line in lines[1:] if line[place["Metric Name"]]]
    trace = ks.read(DETAILS)
    times = {line[0]: line for line in metrics if line[place["Metric Name"]] == "Duration"}
    powers = {"us": 1e3, "ms": 1e6}
    expected = [round(float(line[place["Metric Value"]]) * powers[line[place["Metric Unit"]]]) for line in times.values()]
    assert list(trace.kernels["duration_ns"]) == expected
    assert len(expected) == 6
    advice = [line for line in lines[1:] if not line[place["Metric Name"]]]
    rules = {line[place["Rule Description"]] for line in advice if line[place["Rule Type"]] in ("OPT", "WRN")}
    assert {one["text"] for one in trace.info["rules"]} <= {" ".join(text.split())[:1000] for text in rules}
    assert len(trace.info["rules"]) > 6
    assert trace.info["not_read"] == {"advice of rules": len(lines) - 1 - len(metrics) - len(trace.info["rules"])}
    words = [line for line in metrics if line[place["Metric Value"]][:1].isalpha()]  # CachePreferNone and the like
    assert not trace.diagnostics
    assert len(trace.metrics) + len(words) == len(metrics) == 480
    counts = Counter(line[place["Metric Name"]] for line in metrics)
    assert trace.metrics["metric"].value_counts()["Achieved Occupancy"] == counts["Achieved Occupancy"] == 6
    assert trace.kernels["start_ns"].isna().all()
    assert "no timeline" in trace.info["notes"][0].replace("there is ", "")
    assert trace.info["devices"] == [{"device": "cuda:0", "compute_capability": "8.0", "multiprocessors": 108}]


def test_our_theoretical_occupancy_is_theirs():
    if not DETAILS.exists():
        pytest.skip("needs ../shared/corpus")
    trace = ks.read(DETAILS)
    theirs = trace.metrics[(trace.metrics["metric"] == "Theoretical Occupancy").to_numpy()].set_index("kernel")["value"]
    ours = occupancy.table(trace).set_index("kernel")["occupancy"]
    assert [round(100 * ours[name], 2) for name in trace.kernels["name"]] == list(theirs)


@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("==PROF== Connected to process 12\nepoch 1, loss 2\n", "==PROF== Disconnected\n")]
)
def test_the_raw_page(tmp_path, before, after):
    path = tmp_path / "ncu.csv"
    path.write_text(before + RAW + after)
    trace = ks.read(path)
    assert trace.info["source"]["format"] == "ncu-csv"
    assert list(trace.kernels["duration_ns"]) == [1_024_500, 1_024_500, 3000]
    assert list(trace.kernels["registers"]) == [32, 32, 16]
    assert list(trace.kernels["shared_memory"]) == [16380, 16380, 4]
    assert set(trace.kernels["grid"]) == {"4,2,1"}
    assert set(trace.kernels["block"]) == {"128,1,1"}
    bytes_of = trace.metrics[(trace.metrics["metric"] == "dram__bytes.sum").to_numpy()]
    assert list(bytes_of["value"]) == [1.5e6, 0.5e6, 2e6]
    assert set(bytes_of["unit"]) == {"byte"}
    assert trace.diagnostics["metrics whose values are no numbers"] == 2


def test_counters_by_kernel(tmp_path):
    path = tmp_path / "ncu.csv"
    path.write_text(RAW)
    rows = counters.table(ks.read(path)).set_index("kernel")
    gemm = rows.loc["gemm(float *, int)"]
    assert (gemm["count"], gemm["achieved_occupancy"], gemm["tensor_pipe"], gemm["dram_bytes"]) == (2, 0.5, 0.6, 2_000_000)
    assert rows["sm_throughput"].isna()["add<int>(T1 *)"]
    assert rows["memory_throughput"].isna().all()


def test_summaries_stand_for_several_launches(tmp_path):
    path = tmp_path / "ncu.csv"
    path.write_text(
        '"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Device","CC","Invocations",'
        '"Section Name","Metric Name","Metric Unit","Metric Minimum","Metric Maximum","Metric Average"\n'
        '"9","a","h","k","(32, 1, 1)","(1, 1, 1)","0","8.0","4","SOL","Duration","us","1","3","2.5"\n'
    )
    kernel = ks.read(path).kernels.iloc[0]
    assert (kernel["count"], kernel["duration_ns"]) == (4, 10_000)


def test_without_durations_it_is_refused(tmp_path):
    path = tmp_path / "ncu.csv"
    path.write_text(
        HEAD + '"Section Name","Metric Name","Metric Unit","Metric Value"\n' + KERNEL.format(0, "k") + '"a","b","c","1"\n'
    )
    with pytest.raises(EvidenceError, match=r"ncu\.csv: none of 1 launches has a duration; record with"):
        ks.read(path)
    path.write_text(RAW.splitlines()[0] + "\n")
    with pytest.raises(EvidenceError, match="a header but no launch"):
        ks.read(path)


def details(*rows):
    """Return the page details with a duration of a launch for each (value, unit)."""
    lines = [KERNEL.format(number, "k") + f'"SOL","Duration","{unit}","{value}"' for number, (value, unit) in enumerate(rows)]
    return "\n".join([HEAD + '"Section Name","Metric Name","Metric Unit","Metric Value"', *lines]) + "\n"


@pytest.mark.parametrize(
    ("unit", "ns"),
    [("ns", 2), ("nsecond", 2), ("nanoseconds", 2), ("us", 2000), ("usecond", 2000), ("\u00b5s", 2000), ("\u03bcs", 2000),
     ("microsecond", 2000), ("microseconds", 2000), ("usec", 2000), ("ms", 2_000_000), ("msecond", 2_000_000),
     ("millisecond", 2_000_000), ("s", 2 * 10**9), ("second", 2 * 10**9), ("seconds", 2 * 10**9), ("sec", 2 * 10**9)],
)  # fmt: skip
def test_durations_in_every_unit_of_time(tmp_path, unit, ns):
    path = tmp_path / "ncu.csv"
    path.write_text(details(("2", unit)), encoding="utf8")
    assert ks.read(path).kernels["duration_ns"].tolist() == [ns]


@pytest.mark.parametrize("unit", ["foo", "", "cycle", "minute", "%"])
def test_a_duration_in_another_unit_is_none_and_is_told_by_every_command(tmp_path, unit):
    path = tmp_path / "ncu.csv"
    path.write_text(details(("2", "us"), ("3", unit)))
    trace = captures.read(path)
    assert trace.kernels["duration_ns"].tolist() == [2000]
    assert captures.lost(trace) == {"launches without a duration, left out with their metrics": 1}
    path.write_text(details(("3", unit)))
    said = rf"ncu\.csv: none of 1 launches has a duration: the first is '3' with the unit '{unit}'; print"
    with pytest.raises(EvidenceError, match=said):
        captures.read(path)


def test_metrics_go_to_a_timelines_kernels_by_name_grid_block_and_turn(tmp_path):
    ncu, timeline = tmp_path / "ncu.csv", tmp_path / "trace.json"
    ncu.write_text(RAW)
    event = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "dur": 5}
    arguments = {"device": 0, "stream": 7, "grid": [4, 2, 1], "block": [128, 1, 1]}
    names = ["gemm(float *, int)", "other", "gemm(float *, int)"]
    events = [
        {**event, "name": name, "ts": 10 * turn, "args": arguments | {"correlation": turn}} for turn, name in enumerate(names)
    ]
    timeline.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    with captures.reading_all([timeline, ncu]) as trace:
        assert len(trace.kernels) == 3
        bytes_of = trace.metrics[(trace.metrics["metric"] == "dram__bytes.sum").to_numpy()]
        assert dict(zip(bytes_of["kernel"], bytes_of["value"], strict=True)) == {0: 1.5e6, 2: 0.5e6}
        assert trace.diagnostics["launches with metrics and without a kernel on the timeline"] == 1


@pytest.mark.parametrize(
    "text",
    [
        '==PROF== Connected to process 19936 (/opt/task2)\n==PROF== Profiling "k" - 0: 0%....50%....100% - 6 passes\n',
        "[19936] task2@127.0.0.1\n  transpose(int, const double *, double *), 2022-Jun-08 17:30:31, Context 1, Stream 7\n"
        "    Section: Command line profiler metrics\n",
        "  add(float *) (4, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.0\n    Section: Occupancy\n",
    ],
)
def test_what_ncu_prints_for_people_is_told_to_be_printed_as_csv(text, tmp_path):
    path = tmp_path / "task.txt"
    path.write_text(text)
    with pytest.raises(EvidenceError, match=r"it seems to be Nsight Compute's text; print it with ncu --csv --page raw"):
        ks.read(path)


def test_what_is_of_no_format_is_told_a_command_that_reads_it_as_one(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("plain text, Context 1, Stream 7 of thoughts\n")
    with pytest.raises(EvidenceError, match=r"`kernelscope import --from NAME \S+notes.txt -o DIR` says what is wrong"):
        ks.read(path)
