"""The command `breakdown`: which rows, columns and times are shown."""

import gzip
import json
import re
import sqlite3

import pytest

import kernelscope as ks
from kernelscope.cli.main import main
from tests.places import ROOT, corpus

CAPTURE = ROOT / "tests/data/cupti/cupti.records"
RUN = ROOT / "tests/data/gpu/h100/words"
STEPS = ROOT / "tests/data/gpu/h200/mlp.pt.trace.json.gz"
NSYS = "nsys/GindaChen__nsys-ai__h100_2gpu_1s_v1.sqlite"


def shown(capsys, *arguments):
    status = main(["breakdown", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_the_columns_that_were_asked_for(capsys):
    status, out, _ = shown(capsys, CAPTURE, "--by", "kernel", "--columns", "kernel,count,max_ns", "--format", "csv")
    assert status == 0
    expected = ks.breakdown(ks.read(CAPTURE), "kernel").table
    assert out.splitlines()[0] == "kernel,count,max_ns"
    assert len(out.splitlines()) == len(expected) + 1
    status, _, err = shown(capsys, CAPTURE, "--by", "kernel", "--columns", "colour")
    assert status == 2
    assert "no column 'colour' to show; there are kernel, kind" in err
    status, out, _ = shown(capsys, CAPTURE, "--by", "kernel", "--columns", "all")
    assert status == 0
    assert "median, µs" in out
    status, out, _ = shown(
        capsys, CAPTURE, "--by", "kernel", "--columns", "kernel,ms,share,calls", "--rows", "2", "--format", "markdown"
    )
    assert status == 0
    lines = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("|")]
    head, _, first, second, rest, host, whole = lines
    assert head == ["kernel", "time, ms", "share", "calls"]
    assert whole[2] == "100.0%"
    assert sum(float(line[1]) for line in (first, second, rest, host)) == pytest.approx(float(whole[1]), abs=0.02)


def test_calls_and_durations_are_of_one_step_as_times_are(capsys):
    """Kernels that do not overlap take the same time either way."""
    arguments = ("--by", "kernel", "--columns", "kernel,calls,durations,ms", "--rows", "2", "--format", "markdown")
    out = shown(capsys, STEPS, *arguments)[1]
    lines = [line.strip("| ").split(" | ") for line in out.splitlines() if line.startswith("|")]
    durations, times = ([float(line[place]) for line in lines[2:5]] for place in (2, 3))
    assert durations == times
    whole = json.loads(shown(capsys, STEPS, "--by", "kernel", "--format", "json")[1])
    assert whole["steps"] == 5
    assert sum(durations) == pytest.approx(whole["totals"]["kernel_sum_ns"] / 5 / 1e6, abs=0.02)


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_a_kernels_name_time_share_and_calls_come_first(capsys, form):
    status, out, _ = shown(capsys, CAPTURE, "--by", "kernel", "--format", form)
    assert status == 0
    assert "average" in out
    heads = next(line for line in out.splitlines() if "share" in line)
    assert heads.index("share") < heads.index("calls") < heads.index("average")


UNIFIED_MEMORY = """\
==3== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  3.2557ms         1  3.2557ms  3.2557ms  3.2557ms  add(int, float*, float*)

==3== Unified Memory profiling result:
Device "GTX 1080 (0)"
   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
      12         -         -         -           -  2.820396ms  Gpu page fault groups
Total CPU Page faults: 36
"""


def test_how_long_kernels_wait_for_page_faults_is_said(capsys, tmp_path):
    path, folder = tmp_path / "nvprof.txt", tmp_path / "imported"
    path.write_text(UNIFIED_MEMORY)
    assert main(["import", str(path), "-o", str(folder)]) == 0
    for one in (path, folder):
        status, out, err = shown(capsys, one, "--by", "kernel", "--format", "json")
        assert status == 0
        assert "kernels wait for page faults of unified memory: 2.82 ms in 12 groups" in err
    assert [row["duration_ns"] for row in json.loads(out)["rows"]] == [3_255_700], "no row of its own"


def test_moves_of_unified_memory_are_told_beside_the_sum(capsys, tmp_path):
    path = tmp_path / "nvprof.txt"
    moves = "    5030  39.087KB  4.0000KB  940.00KB  192.0000MB  2.770710ms  Host To Device\n"
    path.write_text(UNIFIED_MEMORY.replace("      12     ", f"{moves}      12     "))
    status, out, err = shown(capsys, path, "--by", "kernel", "--format", "json")
    assert status == 0
    assert "moves of unified memory are part of the kernels' time, not of the sum: 5,030 (2.77 ms)" in err
    assert [(row["duration_ns"], row["share"]) for row in json.loads(out)["rows"]] == [(3_255_700, 1.0)]


def test_only_what_a_range_holds(capsys):
    path = corpus(NSYS)
    trace = ks.read(path)
    name = trace.ranges["name"].value_counts().index[0]
    status, out, err = shown(capsys, path, "--by", "kernel", "--range", name, "--format", "json")
    assert status == 0, err
    result = json.loads(out)
    assert f"inside range {name}, open" in err
    assert sum(row["time_ns"] for row in result["rows"]) == result["step_ns"]
    opened = trace.ranges[trace.ranges["name"] == name]
    launches = trace.kernels[trace.kernels["launch_ns"].notna()]
    of_thread = [launches[(launches["launch_thread"] == one.thread).to_numpy(bool)]["launch_ns"] for one in opened.itertuples()]
    inside = [
        launched.between(one.start_ns, one.end_ns).sum() for one, launched in zip(opened.itertuples(), of_thread, strict=True)
    ]
    assert inside == [1, 1], "two threads open it, of which one is looked at"
    assert sum(row["count"] for row in result["rows"] if not row["kernel"].startswith("(")) == 1
    _, out, _ = shown(capsys, path, "--by", "kernel", "--range", name, "--rows", "2")
    first, beside, *_, last = out.splitlines()
    assert first.endswith(f": range {name} by kernel")
    assert beside.startswith("1 time")
    assert last.endswith(f"range {name}"), "what the rows add up to is no step"
    status, _, err = shown(capsys, path, "--range", "no such range")
    assert status == 3
    assert "no range has that name" in err


def test_a_range_ends_with_its_own_work_on_the_device(capsys):
    """Of each time that the optimizer steps: from the first kernel that it launched to the last, or until the range is closed."""
    path = corpus("kineto/pytorch__kineto__resnet50_nw0_worker0.1623143089861.pt.trace.json.gz")
    with gzip.open(path, "rt") as file:
        events = json.load(file)["traceEvents"]
    ends = {one["args"]["correlation"]: (one["ts"], one["ts"] + one["dur"]) for one in events if one.get("cat") == "Kernel"}
    launches = [one for one in events if one.get("cat") == "Runtime" and one["args"].get("correlation") in ends]
    lasted = []
    for one in events:
        if str(one.get("name")).startswith("Optimizer.step") and one.get("ph") == "X":
            over = one["ts"] + one["dur"]
            mine = [
                ends[call["args"]["correlation"]]
                for call in launches
                if call["tid"] == one["tid"] and one["ts"] <= call["ts"] <= over
            ]
            lasted.append(max(over, *(end for _, end in mine)) - min(start for start, _ in mine))
    status, out, err = shown(capsys, path, "--by", "phase", "--range", "Optimizer.step*", "--format", "json")
    assert status == 0, err
    result = json.loads(out)
    assert result["steps"] == len(lasted) == 6
    assert result["step_ns"] == pytest.approx(1000 * sum(lasted) / 6, rel=1e-4)
    assert {row["phase"] for row in result["rows"] if row["time_ns"]} <= {"optimizer", "(no phase known)", None}


def test_a_window_without_a_whole_step_is_looked_at_as_a_whole(capsys):
    path = corpus("kineto/pytorch__kineto__resnet50_nw0_worker0.1623143089861.pt.trace.json.gz")
    status, out, err = shown(capsys, path, "--by", "phase", "--window", "0:50", "--format", "json")
    assert status == 0, err
    result = json.loads(out)
    assert result["window"] == "capture", "the steps last 178 ms, and what repeats within one is none"
    assert 50_000_000 <= result["step_ns"] < 52_000_000


def test_totals_tell_what_an_execution_takes_on_average(capsys):
    path = corpus("nvprof/nanzifan__nvprof-result__cfd_print-gpu-summary.csv")
    status, out, err = shown(capsys, path, "--by", "kernel", "--format", "json")
    assert status == 0, err
    means = {row["kernel"].partition("(")[0]: row["mean_ns"] for row in json.loads(out)["rows"]}
    assert means["cuda_compute_flux"] == 44_725, "as the file says: 44.725us"


@pytest.mark.parametrize("by", ["kernel", "range", "idle"])
def test_a_window_of_a_capture(capsys, by):
    """From 100 to 200 ms after the first work of the device, kernels by plain SQL; ranges begin and end outside of it."""
    path = corpus("pairs/n21-workers2-8/a.sqlite")
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as database:
        tables = ("KERNEL", "MEMCPY", "MEMSET")
        zero = min(database.execute(f"SELECT MIN(start) FROM CUPTI_ACTIVITY_KIND_{table}").fetchone()[0] for table in tables)
        query = "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start >= ? AND start < ?"
        count = database.execute(query, (zero + 100_000_000, zero + 200_000_000)).fetchone()[0]
    status, out, err = shown(capsys, path, "--by", by, "--window", "100:200", "--format", "json")
    assert status == 0, err
    result = json.loads(out)
    assert result["totals"]["wall_ns"] < 120_000_000, "the window, and the host's lead"
    assert sum(row["time_ns"] for row in result["rows"]) == result["step_ns"]
    if by == "kernel":
        assert sum(row["count"] for row in result["rows"] if not row["kernel"].startswith("(")) == count == 353


def test_rows_that_hold_others(capsys):
    path = corpus(NSYS)
    status, out, _ = shown(capsys, path, "--by", "range", "--inclusive")
    assert status == 0
    assert "inclusive: rows overlap" in out
    assert " own " in out


def test_steps_that_a_program_marks_by_ranges_are_taken_of_a_file_and_of_what_was_imported(capsys, tmp_path):
    """nsys marks none; by SQL kernels take 183,578,735 ns in the five ranges step 0 to step 4."""
    path = ROOT / "tests/data/gpu/h200/nsys-precision-a.sqlite.gz"
    assert main(["import", str(path), "-o", str(tmp_path / "imported")]) == 0
    capsys.readouterr()
    said = []
    for recording in (path, tmp_path / "imported"):
        assert main(["breakdown", str(recording), "--by", "kernel", "--format", "json"]) == 0
        out, err = capsys.readouterr()
        assert "5 steps, from one range to the next (step #), confidence high" in err
        said.append(json.loads(out))
    assert said[0]["rows"] == said[1]["rows"]
    assert said[0]["steps"] == 5
    kernels = [row for row in said[0]["rows"] if not row["kernel"].startswith("(")]
    assert sum(row["duration_ns"] for row in kernels) == 183_578_735


def test_rows_that_are_grouped_by_two_columns_show_both(capsys):
    status, out, _ = shown(capsys, CAPTURE, "--by", "kernel", "--group", "library,kind")
    assert status == 0
    assert "by library and kind" in out
    heads = next(line for line in out.splitlines() if "share" in line)
    assert heads.split()[:2] == ["library", "kind"]


def test_lines_are_sorted_by_time_and_are_of_one_pass(capsys):
    """The lines pass measured other steps: what it counted is shown where it is asked for."""
    status, out, _ = shown(capsys, RUN, "--by", "line", "--rows", "6")
    assert status == 0
    head = next(line for line in out.splitlines() if line.split()[:2] == ["ms", "share"])
    assert head.split() == ["ms", "share", "host", "device", "idle", "line", "text"]
    times = [float(line.split()[0]) for line in out.splitlines() if re.match(r" *[0-9.]+ +[0-9.]+%", line)]
    assert len(times) == 8, "six lines, the others, and the step"
    assert times[:6] == sorted(times[:6], reverse=True)
    assert sum(times[:-1]) == pytest.approx(times[-1], abs=0.04)
    assert "are of the lines pass: --columns line,text,count,profiled_ns" in out
    asked = shown(capsys, RUN, "--by", "line", "--columns", "line,text,count,profiled_ns", "--rows", "2")[1]
    assert "calls" in asked
    assert "profiled, ms" in asked
