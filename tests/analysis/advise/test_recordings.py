"""Advice on recordings that others made, whose remedy is known: what B of a pair does and A does not."""

import functools
import gzip
import json
import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest

from kernelscope.analysis import EvidenceError
from kernelscope.analysis import advise as advising
from kernelscope.reports import advice
from tests.places import CORPUS, corpus

advise = functools.cache(advising.advise)  # several tests look at one recording
LARGE = 1_000_000  # bytes: larger captures of a format are read as these are
PAIRS = CORPUS / "pairs"

pytestmark = pytest.mark.skipif(not PAIRS.is_dir(), reason="no corpus beside the project")


def topics(name):
    result = advise(next((PAIRS / name).iterdir() if "/" not in name else iter([PAIRS / name])))
    assert sum(part["ns"] for part in result["parts"]) == result["step_ns"]
    return {one["topic"]: one["saves_ns"] / 1e6 for one in result["advice"]}


@pytest.mark.parametrize(
    ("name", "topic", "ms"),
    [
        ("n21-workers2-8/a.sqlite", "input pipeline", 510.1),
        ("n21-8workers-dali/a.sqlite", "input pipeline", 32.6),
        ("n21-dali-amp/a.sqlite", "mixed precision", 53.3),
        ("n21-amp-apexjit/a.sqlite", "fusion", 12.4),
    ],
)
def test_what_the_next_version_did(name, topic, ms):
    """The ms are those that its authors gained, by shared/corpus/pairs/truth.csv; estimates are within a factor of two."""
    found = topics(name)
    assert ms / 2 < found[topic] < ms * 2
    if topic == "input pipeline":
        assert max(found, key=found.get) == topic or found[topic] > 0.1 * ms


def test_steps_that_differ_are_told_by_more_than_their_mean():
    """Every second step of the first waits, of the other version hardly any: ranges of NVTX by plain SQL."""
    uneven, even = (advise(PAIRS / "n21-workers2-8" / name) for name in ("a.sqlite", "b.sqlite"))
    with sqlite3.connect(f"file:{PAIRS}/n21-workers2-8/a.sqlite?immutable=1", uri=True) as database:
        text = "COALESCE(text, (SELECT value FROM StringIds WHERE id = textId))"
        starts = [ns for (ns,) in database.execute(f"SELECT start FROM NVTX_EVENTS WHERE {text} LIKE 'step %' ORDER BY start")]
    lengths = sorted(after - before for before, after in pairwise(starts))
    assert uneven["range_ns"] == pytest.approx([lengths[0], lengths[-1]], abs=100e6), "the host is up to 0.1 s ahead"
    assert "A step takes 720 ms on average (177 ms to 1.29 s) on A100" in advice.answer(uneven)
    loading = next(one for one in uneven["advice"] if one["topic"] == "input pipeline")
    assert "It is uneven: 15 of the 28 steps hold 90% of this time." in loading["evidence"]
    assert even["range_ns"] is None
    copying = next(one for one in even["advice"] if one["topic"] == "copies")
    assert not any("uneven" in sentence for sentence in copying["evidence"])


def test_what_computes_hides_copies_that_mxnet_times_on_the_host():
    """Two copies of 23 ms run beside one operator of 21.9 ms, which begins 1.79 ms after them: by the file's own events."""
    result = advise(PAIRS / "mx-cpu-gpu" / "b.json")
    parts = {part["what"]: part["ns"] / 1e6 for part in result["parts"]}
    events = json.loads((PAIRS / "mx-cpu-gpu" / "b.json").read_text())["traceEvents"]
    begun = {name: min(one["ts"] for one in events if one.get("name") == name) for name in ("CopyCPU2GPU", "SetValueOp")}
    assert parts["copying alone"] == pytest.approx((begun["SetValueOp"] - begun["CopyCPU2GPU"]) / 1e3, abs=0.001)
    assert "copies" not in [one["topic"] for one in result["advice"]]


def test_where_the_host_is_while_a_program_starts():
    """The longest calls of a capture that is mostly start-up, as plain SQL finds them; calls of several threads overlap."""
    path = corpus("nvprof/esarmstrong__ece408__timeline.nvprof")
    result = advise(path)
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as database:
        each = 'SELECT SUM("end" - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY cbid ORDER BY 1 DESC'
        times = [ns for (ns,) in database.execute(each)]
    alone = result["calls"][0]  # one thread makes it; the others are made by two at once, and count once
    assert alone["name"] == "cudaMemGetInfo"
    assert alone["ns"] in times
    assert all(one["ns"] not in times and one["ns"] < result["recorded_ns"] for one in result["calls"][1:])
    assert "; the host was in cudaMemGetInfo (2.60 s), " in advice.answer(result)


def test_memory_that_is_taken_once_is_told_as_a_start_up_s():
    """Two calls of cudaMalloc, 20 in CUPTI's numbers, and hardly any cudaFree: the device idles as long as they last."""
    path = corpus("nvprof/josiahdavis__profiling-lm__net_189edf9a5e.sql")
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as database:
        each = 'SELECT SUM("end" - start) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE cbid = ?'
        taken_ns, freed_ns = (database.execute(each, (number,)).fetchone()[0] or 0 for number in (20, 22))
    assert freed_ns < taken_ns / 2
    result = advise(path)
    (part,) = [part for part in result["parts"] if part["what"] == "allocating"]
    assert part["ns"] == pytest.approx(taken_ns, rel=0.01)
    said = "allocating, 21.8 ms (41%), is for memory that is allocated once and kept: part of start-up, not of a step"
    assert said in result["notes"]
    assert "allocator" not in [one["topic"] for one in result["advice"]]


def test_of_a_trace_that_holds_hardly_any_operator_the_program_is_not_blamed():
    """A rank's trace: gloo communicates on threads of its own, and the main thread has four aten::empty."""
    path = corpus("kineto/facebookresearch__HolisticTraceAnalysis__cpu_only_rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz")
    result = advise(path)
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    whole = [event for event in events if event.get("ph") == "X"]
    steps = [(event["ts"], event["ts"] + event["dur"]) for event in whole if event["name"].startswith("ProfilerStep")]
    talks = sorted((event["ts"], event["ts"] + event["dur"]) for event in whole if event["name"].startswith("gloo:"))
    covered, reached = 0.0, 0.0
    for begin, end in talks:
        for first, last in steps:
            covered += max(min(end, last) - max(begin, reached, first), 0)
        reached = max(reached, end)
    parts = {part["what"]: part["ns"] for part in result["parts"]}
    assert parts["communication"] == pytest.approx(covered * 1000 / len(steps), abs=1000)
    assert set(parts) == {"communication", "nothing recorded"}
    assert result["advice"] == []


def test_of_a_job_recorded_without_its_devices_nothing_is_promised():
    result = advise(corpus("kineto/facebookresearch__HolisticTraceAnalysis__mixed_files_rank_non_gpu.json.gz"))
    assert result["advice"] == []
    assert result["ranges"][0]["name"] == "## backward ##"
    assert "What computes is not known: the trace holds no device work" in advice.answer(result)


def test_ranges_alone_are_named():
    """The sums of the ranges as plain SQL finds them: none of them overlap."""
    path = corpus("nsys/YoonKyonghwan__EfficientCenterFormer__baseline.sqlite")
    result = advise(path)
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as database:
        each = 'SELECT value, SUM("end" - start) FROM NVTX_EVENTS JOIN StringIds ON id = textId GROUP BY value'
        times = dict(database.execute(each))
    assert [one["name"] for one in result["ranges"]] == ["find_centers", "transformer_forward", "3D_backbone"]
    for one in result["ranges"]:
        assert one["ns"] == times[one["name"]]
    assert "; by range: find_centers 51%, " in advice.answer(result)


def test_of_several_devices_it_is_said_which_one_a_step_waits_for():
    result = advise(corpus("nsys/GindaChen__nsys-ai__h100_2gpu_1s_v1.sqlite"))
    assert result["devices"] == 2
    assert advice.answer(result).startswith(
        "What repeats (a step or a part of one, such as a layer) takes 29.3 ms on cuda:1 of 2 devices"
    )
    assert "On cuda:0: copying alone 97%, computing 3%. The first" in advice.answer(result), "both copy for 921 ms, by SQL"
    (other,) = result["other_devices"]
    assert sum(part["ns"] for part in other["parts"]) == other["ns"]
    assert any(note.startswith("how steps were found: 23 steps, the period of the kernels") for note in result["notes"])


def test_of_more_devices_it_is_said_between_what_shares_they_compute():
    result = advise(corpus("nsys/GindaChen__nsys-ai__h100_2gpu_1s_v1.sqlite"))
    (other,) = result["other_devices"]
    idle = {"device": "cuda:2", "ns": 200, "parts": [{"what": "waiting for the host", "ns": 200}]}
    said = advice.answer({**result, "other_devices": [other, idle]})
    assert "of 2 devices: copying alone 97%, computing 3%. The other 2 compute 0% to 3% of it. The first" in said


def test_totals_name_no_device_that_they_do_not_tell_and_nothing_side_by_side():
    said = advice.answer(advise(corpus("onednn/Sauravrp67__UniYOLO__dnnl.log")))
    assert said.startswith("Kernels and copies add up to 9.67 s: computing")
    result = advise(corpus("nsys/zx3xyy__assignment2-systems__nsys_stats.txt"))
    assert [part["what"] for part in result["parts"]] == ["copying", "computing"]
    (copies,) = [one for one in result["advice"] if one["topic"] == "copies"]
    assert "totals do not show whether computation hides it" in copies["title"]


def test_what_half_precision_gains_where_kernels_names_tell_what_device_runs_them():
    """Of 28,999 ms, 63% and more is in products in float32 of cuBLAS for Ampere; the table names no device."""
    result = advise(corpus("nsys/ShibukiZero__assignment2-systems__2.7b_ctx512_train_step_cuda_gpu_kern_sum_nvtx.txt"))
    (mixed,) = [one for one in result["advice"] if one["topic"] == "mixed precision"]
    assert 0.25 * result["step_ns"] < mixed["saves_ns"] < 0.5 * result["step_ns"]
    assert "the recording names no device" in mixed["estimate"]


def test_an_attention_that_no_kernel_fuses():
    found = topics("tl-timesformer-h100-mi300/a.json.gz")
    assert list(found)[:2] == ["host-bound", "attention"]


def test_an_attention_whose_softmax_is_written_out():
    """A transformer of twelve blocks that scales, masks, exponentiates, sums and divides by a kernel each."""
    result = advise(corpus("nsys/zx3xyy__assignment2-systems__result.sqlite"))
    (one,) = [one for one in result["advice"] if one["topic"] == "attention"]
    assert one["evidence"][0].startswith("12 times a step, between two products: 744 µs")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=f"{path.parent.name}-{path.name}", marks=[pytest.mark.long] if path.name.startswith("a.") else [])
        for path in (sorted(PAIRS.glob("*/*.*")) if PAIRS.is_dir() else [])
    ],
)
def test_every_side_adds_up_and_saves_no_more_than_the_step(path: Path):
    result = advise(path)
    assert sum(part["ns"] for part in result["parts"]) == result["step_ns"]
    assert all(0 < one["saves_ns"] <= result["step_ns"] for one in result["advice"])


@pytest.mark.parametrize("folder", ["kineto", "nsys", "nvprof", "tf", "mxnet", "more", "broken"])
def test_every_capture_is_answered_or_refused_in_one_line(folder):
    answered = 0
    for path in sorted(one for one in (PAIRS.parent / folder).iterdir() if one.is_file() and one.stat().st_size < LARGE):
        try:
            result = advise(path)
        except EvidenceError as error:
            assert "\n" not in str(error)  # noqa: PT017
            continue
        answered += 1
        assert sum(part["ns"] for part in result["parts"]) == result["step_ns"], path.name
        # in totals, what the host spends beside the device's work is no part of its sum
        of_host = ("host-bound", "allocator", "operators on the host")
        within = [one for one in result["advice"] if result["timeline"] or one["topic"] not in of_host]
        assert all(0 < one["saves_ns"] <= result["step_ns"] for one in within), path.name
    assert answered


def test_lines_alone_are_named():
    """The line that takes most, as line_profiler printed it: 92,394,253 times of 1 us, 76.4% of the function."""
    result = advise(corpus("lineprof/arleyzhang__ssd.pytorch__result_10batch.txt"))
    first = result["ranges"][0]
    assert first["name"] == "train.py:182 out = net(images)"
    assert first["ns"] / result["step_ns"] == pytest.approx(0.764, abs=0.001)
    assert sum(part["ns"] for part in result["parts"]) == result["step_ns"]
    assert result["advice"] == []
    assert any("lets its framework compute" in note and "train.py:182 `out = net(images)`" in note for note in result["notes"])
    assert "; by line: train.py:182 out = net(images) 76%, " in advice.answer(result)


def test_a_host_that_does_not_wait_is_ahead_by_no_more_than_it_waited():
    """A benchmark that clears its caches on the host after each wait: the waits' durations, of the trace itself."""
    path = corpus("kineto/facebookresearch__HolisticTraceAnalysis__execution_trace_benchmark_simple_add_trace.json.gz")
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    waits = sum(
        event["dur"] for event in events if event.get("ph") == "X" and "Synchronize" in event["name"] and event.get("dur")
    )
    [one] = [one for one in advise(path)["advice"] if one["topic"] == "synchronisation"]
    assert 0 < one["saves_ns"] <= waits * 1000


def test_communication_can_be_hidden_by_what_computes_at_most():
    """6.41 ms of other kernels a step, of which 3.9 ms run beside the 15.7 ms of communication already."""
    result = advise(corpus("kineto/AMD-AGI__TraceLens__mi300_resnet_act_checkpoint.json.gz"))
    [one] = [one for one in result["advice"] if one["topic"] == "communication"]
    assert "can hide 2.44 ms of it" in one["estimate"]
    assert "half the bytes" not in one["estimate"]
    alone = next(part["ns"] for part in result["parts"] if part["what"] == "communication alone")
    bytes_, us = 2 * 3 * (2_873_320 + 8_816_192), 6912 + 8933 + 6678 + 9209 + 6749 + 8657  # the file's own events with sizes
    assert one["saves_ns"] == pytest.approx(alone * (1 - bytes_ / us / 1e3 / 5), rel=0.03)
    assert "moves only 1.5 GB/s" in one["title"]
