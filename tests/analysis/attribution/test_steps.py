"""Steps of captures that mark none: each way of finding them, what must not be taken for one, and what users ask for."""

import contextlib
import copy
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kernelscope.analysis.accounting.step_times import step_times
from kernelscope.analysis.attribution import steps
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import reading
from kernelscope.analysis.trace import Trace, conform
from tests.analysis.explain.device.synthetic import (
    COPIES,
    LOADER,
    Copy,
    Graph,
    Host,
    Kernel,
    Noise,
    Wait,
    Within,
    recording,
)
from tests.places import corpus

AUTOGRAD = 300  # a thread
FORWARD = [Kernel("embed", 50), *(Kernel(f"gemm_{layer}", 300, "gemm") for layer in range(4)), Kernel("loss", 40, "reduction")]
BACKWARD = [Kernel(f"gemm_grad_{layer}", 500, "gemm") for layer in range(4)]
UPDATE = [Kernel("adam", 60, "optimizer") for _ in range(3)]
STEP = [*FORWARD, *BACKWARD, *UPDATE]
TUNING = [Kernel(f"tuned_{number}", 100 + number, "gemm") for number in range(60)]


def unmarked(step, number=10, **options):
    return recording(step, number, marked=False, **options)


def found_in(step, number=10, **options):
    """Return the steps that are found, and when the true ones start on the host."""
    truth = recording(step, number, **copy.deepcopy(options)).steps["start_ns"].to_numpy(np.int64)
    return steps.find(unmarked(step, number, **options)), truth


def assert_are(found, truth, method, missing=1):
    """The steps found are the true ones, one after another; as many as `missing` may be left out at the ends."""
    assert found is not None
    assert found.method == method
    assert len(truth) - missing <= len(found.table) <= len(truth)
    begins = found.table["start_ns"].to_numpy(np.int64)
    # what marks a step stands at one place in it, not always at its beginning
    step = np.searchsorted(truth, begins, side="right") - 1
    assert np.diff(step).tolist() == [1] * (len(begins) - 1)
    assert found.confidence in ("high", "medium")


# --- ranges ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["step {}", "train_step", "iteration {}", "batch_{}", "Iter: {}"])
def test_ranges_named_like_steps(name):
    found, truth = found_in(lambda number: [Within(name.format(number), tuple(STEP)), Host(30)])
    assert_are(found, truth, "range")
    assert found.confidence == "high"


def test_a_moment_of_start_up_that_repeats_is_no_step():
    """A search for algorithms launches the same kernels three times; of a second of start-up that is nothing."""
    short = [Kernel("search", 20), Kernel("search_too", 10), Wait(), Host(10)]
    assert steps.find(recording(short, 4, marked=False)) is not None
    started = [Kernel("other", 5), Wait(), Host(1_000_000)]
    assert steps.find(recording(short, 4, marked=False, before=started)) is None
    many = recording(short, 40, marked=False, before=started)
    assert steps.find(many) is not None, "a loop, however long the program took to start"


def test_passes_of_a_short_recording_are_not_taken_apart_into_their_layers():
    """By SQL there are 48 x sgemm_128x128_nn and 4 x 128x64_tn of 544 us: four passes of twelve layers, one begun late."""
    capture = corpus("nsys/zx3xyy__assignment2-systems__result.sqlite")
    found, other = steps.candidates(reading.read(capture))[:2]
    assert len(found.table) == 3
    assert found.source == "every 692 kernels"
    assert len(other.table) == 46


def test_inside_of_a_range_of_two_phases_is_the_longer_one():
    """A layer's range is open once forward and in pieces backward: their mean would be nobody's time."""
    rows = [("conv", start + place, start + place + lasts, phase) for start in (0, 1000, 2000)
            for place, lasts, phase in ((0, 400, "forward"), (500, 30, "backward"), (600, 30, "backward"))]  # fmt: skip
    ranges = pd.DataFrame(rows, columns=["name", "start_ns", "end_ns", "phase"]).assign(thread=1, category="layer")
    found = steps.inside(Trace(ranges=conform("ranges", ranges)), "conv")
    assert (found.table["end_ns"] - found.table["start_ns"]).tolist() == [400] * 3
    assert "inside range conv (forward), open 3 times" in found.sentence()


def test_ranges_around_the_host_part_only():
    """The range ends long before the device does, and the loop waits for data outside of it: a step lasts to the next range."""
    found, truth = found_in([Within("step", (Host(100), *STEP)), Wait(), Host(3000)])
    assert_are(found, truth, "range")
    lasted = (found.table["end_ns"] - found.table["start_ns"]).to_numpy(np.int64)
    assert lasted == pytest.approx(np.diff(truth)[: len(lasted)])


def test_ranges_of_other_names_that_hold_the_work():
    found, truth = found_in(lambda number: [Within(f"my thing no. {number}", tuple(STEP)), Host(30)])
    assert_are(found, truth, "range")


def test_ranges_of_layers_inside_of_steps_are_no_steps():
    layers = [Within(f"layer {number}", (Kernel("gemm", 300, "gemm"), Kernel("gelu", 40))) for number in range(6)]
    found, truth = found_in([Within("train_step", (Kernel("embed", 20), *layers, *UPDATE)), Host(30)])
    assert_are(found, truth, "range")
    assert found.source == "train_step"


def test_epochs_are_no_steps():
    found, _ = found_in([Within("epoch", tuple([Within("step", tuple(STEP)), Host(20)] * 5))], 4)
    assert len(found.table) in (19, 20)
    assert found.source == "step"


def test_warm_up_with_other_kernels_is_left_out():
    found, truth = found_in(lambda number: [Within("step", tuple([*TUNING, *STEP] if number < 2 else STEP)), Host(30)])
    assert_are(found, truth[2:], "range")
    assert found.table["start_ns"].min() >= truth[2]
    assert found.warmup == 2


def test_a_range_that_holds_little_of_the_work_marks_no_step():
    found, _ = found_in([*STEP, Within("zero_grad of my optimizer", (Kernel("fill", 5),)), Wait("cudaStreamQuery")])
    assert found is None or found.source != "zero_grad of my optimizer" or found.method != "range"


# --- input ----------------------------------------------------------------------------------------------------------------------

LOADING = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


@pytest.mark.parametrize("where", ["operator", "range"])
def test_iterations_of_the_input(where):
    found, truth = found_in([Host(400, **{where: LOADING}), *STEP, Wait()])
    assert_are(found, truth, "input")


def test_iterations_of_the_input_after_warm_up():
    found, truth = found_in(lambda number: [Host(400, operator=LOADING), *(TUNING if number == 0 else ()), *STEP, Wait()])
    assert_are(found, truth[1:], "input")


# --- calls ----------------------------------------------------------------------------------------------------------------------


def test_steps_of_the_optimizer():
    found, truth = found_in([*FORWARD, *BACKWARD, Within("Optimizer.step#Adam.step", tuple(UPDATE)), Host(30)])
    assert_are(found, truth, "call")


def test_launches_of_a_graph():
    found, truth = found_in([Host(50), Graph(4000), Host(10)])
    assert_are(found, truth, "call")
    assert found.source == "cudaGraphLaunch"


def test_one_wait_for_the_device_in_a_step():
    found, truth = found_in([*STEP, Wait(), Host(200)])
    assert_are(found, truth, "call", missing=2)


# --- the period of the kernels --------------------------------------------------------------------------------------------------


def test_the_period_of_the_kernels():
    found, truth = found_in(STEP)
    assert_are(found, truth, "period", missing=2)
    lasted = (found.table["end_ns"] - found.table["start_ns"]).to_numpy(np.int64)
    assert lasted == pytest.approx(np.diff(truth)[: len(lasted)])


def test_the_period_where_no_launches_are_known():
    step = [replace(kernel, launched=False) for kernel in STEP]
    found, _ = found_in(step)
    assert found.method == "period"
    assert len(found.table) in (8, 9)
    lasted = (found.table["end_ns"] - found.table["start_ns"]).to_numpy(np.int64)
    assert lasted == pytest.approx(sum(kernel.us for kernel in STEP) * 1000, rel=0.01)


def test_a_prologue_that_changes():
    """Autotuning tries other kernels in each of the first steps."""
    found, truth = found_in(lambda number: [*TUNING[20 * number : 20 * number + 20], *STEP] if number < 3 else STEP, 14)
    assert_are(found, truth[2:], "period", missing=2)  # the third begins with the kernels that all have, after its tuning
    assert found.table["start_ns"].min() > truth[2]


def test_uploads_and_compilation_before_the_loop_are_of_no_step():
    before = [*(Copy(900, bytes=9_000_000) for _ in range(5)), *TUNING, Host(20_000)]
    found, truth = found_in(STEP, before=before)
    assert_are(found, truth, "period", missing=2)


def test_layers_that_repeat_inside_of_a_step_are_no_steps():
    layer = [Kernel("qkv", 200, "gemm"), Kernel("flash", 150, "attention"), Kernel("mlp", 400, "gemm"), Kernel("norm", 30)]
    found, truth = found_in([Kernel("embed", 60), *layer * 12, Kernel("logits", 300, "gemm"), Kernel("loss", 50), *UPDATE])
    assert_are(found, truth, "period", missing=2)


def test_layers_of_one_call_of_the_model_are_no_steps():
    layer = [Kernel("qkv", 200, "gemm"), Kernel("flash", 150, "attention"), Kernel("mlp", 400, "gemm"), Kernel("norm", 30)]
    trace = unmarked([Within("nn.Module: Model_0", (Kernel("embed", 60), *layer * 24, Kernel("logits", 300, "gemm")))], 1)
    assert len(steps.find(trace).table) >= 22
    trace.ranges["category"] = "layer"
    assert steps.find(trace) is None


def test_two_kinds_of_step_by_turns():
    """A discriminator's step and a generator's, or a step that accumulates and one that updates: two of them are the period."""
    found, _ = found_in(lambda number: [*FORWARD, *BACKWARD, *(UPDATE * 4 if number % 2 else ())], 16)
    assert found is not None
    assert len(found.table) in (7, 8, 14, 15)
    kernels = unmarked(lambda number: [*FORWARD, *BACKWARD, *(UPDATE * 4 if number % 2 else ())], 16).kernels
    inside = [
        int(kernels["launch_ns"].between(start, end - 1).sum())
        for start, end in zip(found.table["start_ns"], found.table["end_ns"], strict=True)
    ]
    if len(found.table) in (7, 8):
        assert set(inside) == {2 * len([*FORWARD, *BACKWARD]) + 4 * len(UPDATE)}


def test_steps_that_grow():
    """Each token attends to one more: the same kernels, longer in every step."""
    found, truth = found_in(lambda number: [replace(kernel, us=kernel.us * (1 + number / 10)) for kernel in STEP], 20)
    assert_are(found, truth, "period", missing=2)


@pytest.mark.parametrize("seed", range(3))
def test_steps_through_noise(seed):
    found, truth = found_in([*STEP, Host(100)], 12, noise=Noise(0.1, 0.3, seed))
    assert_are(found, truth, "period", missing=2)


def test_what_prefetches_on_another_stream_does_not_hide_the_period():
    """A loader's copies come in bursts of their own, on another stream and from another thread."""
    found, truth = found_in(
        lambda number: [*STEP, *[Copy(40, stream=COPIES, thread=LOADER)] * [0, 3, 1, 0, 2][number % 5]], 15, noise=Noise(0.02)
    )
    assert_are(found, truth, "period", missing=2)


def test_gradients_launched_by_a_thread_of_their_own():
    found, truth = found_in([*FORWARD, *(replace(kernel, thread=AUTOGRAD) for kernel in BACKWARD), *UPDATE])
    assert_are(found, truth, "period", missing=2)


def test_gradients_that_accumulate():
    """Four times forward and backward, then one update: that is one step."""
    found, truth = found_in([*(FORWARD + BACKWARD) * 4, *UPDATE])
    assert_are(found, truth, "period", missing=2)


def test_tokens_one_by_one_after_a_prefill():
    def step(number):
        name, us = ("prefill_gemm", 2000) if number == 0 else ("gemv", 20)
        return [
            Kernel("embed", 5),
            *[Kernel(name, us, "gemm"), Kernel("attn", 10 + number, "attention")] * 8,
            Kernel("sample", 15),
        ]

    found, truth = found_in(step, 40)
    assert_are(found, truth[1:], "period", missing=2)


@pytest.mark.xfail(strict=True, reason="a wait for the device in every fifth step is taken for the end of each")
def test_a_wait_in_every_fifth_step_ends_no_step():
    """The loss is printed now and then, which waits for it."""
    logged = [Kernel("copy_loss", 5), Wait(), Host(50)]
    found, _ = found_in(lambda number: [*STEP, *(logged if number % 5 == 4 else ())], 20)
    assert len(found.table) in (18, 19, 20)


# --- nothing that repeats -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "items",
    [
        [],
        [Kernel("only", 500)],
        [Kernel(f"k{number}", 100 + number) for number in range(50)],
        [Kernel("a", 100), Kernel("b", 200), Kernel("c", 50), Kernel("d", 20), Kernel("b", 200)],
    ],
    ids=["no work", "one kernel", "all different", "a little again"],
)
def test_nothing_repeats(items):
    assert steps.find(unmarked(items, 1)) is None


@pytest.mark.parametrize("seed", range(4))
def test_kernels_in_no_order_are_no_steps(seed):
    random = np.random.default_rng(seed)
    items = [Kernel(f"k{random.geometric(0.15)}", float(random.integers(20, 400))) for _ in range(120)]
    found = steps.find(unmarked(items, 1))
    assert found is None or found.confidence != "high"


def test_ranges_with_other_work_in_each_are_no_steps():
    found = steps.find(unmarked(lambda number: [Within("part", tuple(Kernel(f"k{number}_{n}", 100) for n in range(8)))], 8))
    assert found is None


def test_a_trace_without_anything():
    assert steps.find(Trace()) is None
    assert steps.candidates(Trace()) == []


# --- what the profiler says, and what users say ---------------------------------------------------------------------------------


def test_the_profilers_steps_come_first():
    found = steps.find(recording([Within("iteration", tuple(STEP)), Host(30)], 6))
    assert (found.method, len(found.table), found.confidence) == ("profiler", 6, "high")


def asked(text, step=STEP, **options):
    return steps.find(recording(step, 10, **options), steps.parse(text))


def test_steps_on_request():
    layers = [Within("layer", (Kernel("gemm", 300, "gemm"), Kernel("norm", 20)))] * 3
    step = [Within("train_step", (Kernel("embed", 20), *layers)), Host(20)]
    assert asked("range:train_*", step).source == "train_*"
    assert len(asked("range:layer", step).table) in (29, 30)
    assert asked("kernel:^embed", step).method == "period"
    assert len(asked("kernel:^embed", step).table) == 9
    assert asked("period", step).method == "period"
    assert asked("whole", step) is None
    assert asked("auto", step).method == "profiler"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("range:no such", "no range has that name"),
        ("kernel:no_such", "no kernel has that name"),
        ("kernel:.", "kernels, but the device work from one to the next is not alike"),
    ],
)
def test_steps_that_are_not_there(text, why):
    with pytest.raises(EvidenceError, match=why):
        asked(text)


@pytest.mark.parametrize("text", ["range", "range:", "kernel:(", "period:x", "whole:x", "often"])
def test_requests_that_cannot_be_read(text):
    with pytest.raises(EvidenceError, match="--steps"):
        steps.parse(text)


def test_another_device_and_one_that_is_not_there():
    step = [*STEP, Kernel("small", 10, stream=30, device="cuda:1")]
    trace = unmarked(step, 10)
    assert steps.find(trace, steps.parse(None, "cuda:1")).source.endswith("small")
    with pytest.raises(EvidenceError, match="cuda:1"):
        steps.find(trace, steps.parse(None, "cuda:7"))


def test_sentences_say_how_steps_were_found():
    found, _ = found_in(lambda number: [Within("step", tuple([*TUNING, *STEP] if number < 2 else STEP)), Host(30)])
    sentence = found.sentence()
    assert f"{len(found.table)} steps" in sentence
    assert "(step)" in sentence
    assert "2 before them were warm-up" in sentence


def test_what_a_range_calls_warm_up_is_in_no_step():
    """Kernels of each quarter by SQL: 891.0, 839.2, 839.1 and 839.1 ms; the first is in a range "warmup", the last has no end."""
    path = corpus("nsys/zx3xyy__assignment2-systems__result_2_7B_nvtx.sqlite")
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        lasted = [
            end - start for start, end in database.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start")
        ]
    quarter = len(lasted) // 4
    expected = sum(lasted[quarter : 3 * quarter]) / sum(lasted)
    found = steps.find(reading.read(path), steps.parse(None))
    assert (found.method, len(found.table), found.warmup) == ("period", 2, 1)
    assert found.covered == pytest.approx(expected, abs=0.001)
    assert "51% of the kernels' time is outside them" in found.sentence()


def test_some_of_the_steps_are_as_long_as_among_all_of_them():
    """When a step ends on the device depends on the next one, which is left out only after that."""
    path = corpus("kineto/pytorch__kineto__autograd_api_nw0_worker0.pt.trace.json.gz")
    whole, some = (step_times(trace, steps.find(trace, request), None) for trace, request in (
        (reading.read(path), steps.parse(None)), (reading.read(path), steps.parse("2:3")),
    ))  # fmt: skip
    assert [row["step"] for row in whole] == [1, 2, 3, 4]
    same = ("step", "step_ms", "busy_ms", "kernels", "start_ms")
    assert [[row[name] for name in same] for row in some] == [[row[name] for name in same] for row in whole[1:3]]
    assert steps.find(reading.read(path), steps.parse("3:")).sentence().endswith("only steps 3 to 4 are analysed")


@pytest.mark.parametrize(
    ("text", "said"),
    [("7:9", "--steps 7:9: the steps are 0 to"), ("3:2", "the last step is before"), ("a:b", "or 3:7 for some")],
)
def test_steps_that_are_not_there_are_refused(text, said):
    with pytest.raises(EvidenceError, match=said):
        steps.find(recording([*STEP, Host(30)], 5, marked=True), steps.parse(text))
