"""Kineto's trace of training with activation checkpoints on an MI300 as a kernels pass, against loops over its JSON."""

import collections
import gzip
import json
import shutil
from pathlib import Path

import pytest

import kernelscope as ks
from kernelscope.analysis.formats.kineto import tables as kineto
from kernelscope.analysis.formats.kineto import trace as captures_kineto
from kernelscope.analysis.recordings.run import Run

OFFSET = 5_000_000_000_123
CAPTURE = ("kineto", "AMD-AGI__TraceLens__mi300_resnet_act_checkpoint.json.gz")
LAYERS = ("Conv", "Batch", "ReLU", "Linear", "Max")


def _ns(event):
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory, captured, write_run):
    """Three steps of training; layers are the leaf modules that the profiler saw called, on both threads."""
    source, folder = captured(*CAPTURE), tmp_path_factory.mktemp("resnet") / "run"
    with gzip.open(source) as file:
        content = json.load(file)
    base = content["baseTimeNanoseconds"]
    events = [event for event in content["traceEvents"] if "dur" in event]
    annotations = {event["name"]: [] for event in events if event["cat"] == "user_annotation"}
    for event in events:
        if event["cat"] == "user_annotation":
            annotations[event["name"]].append((event["tid"], *_ns(event)))
    steps = [(*annotations[f"ProfilerStep#{number}"][0][1:], False, 542) for number in (15, 16, 17)]
    steps = [(start, min(end, steps[i + 1][0]) if i < 2 else end, *rest) for i, (start, end, *rest) in enumerate(steps)]
    forward, optimizer = annotations["DistributedDataParallel.forward"], annotations["Optimizer.step#SGD.step"]
    ranges = [(*spans, "phase", "forward", None, "forward") for spans in forward]
    ranges += [
        (542, before[2], after[1], "phase", "backward", None, "backward")
        for before, after in zip(forward, optimizer, strict=True)
    ]
    ranges += [(*spans, "phase", "optimizer step", None, "optimizer") for spans in optimizer]
    for event in events:
        name = event["name"].removeprefix("nn.Module: ")
        if event["cat"] == "python_function" and name != event["name"] and name.startswith(LAYERS):
            ranges.append((event["tid"], *_ns(event), "layer", name, name, "forward"))
    kernels = write_run(folder, steps, ranges, OFFSET, base, collector="framework")
    shutil.copy(source, kernels / "operators.pt.trace.json.gz")
    return folder, events, steps, ranges


def _open(spans, at):
    """The innermost of (start, end, value) that is open at a time: the last to begin."""
    inside = [span for span in spans if span[0] <= at < span[1]]
    return max(inside, key=lambda span: (span[0], -span[1]))[2] if inside else None


def _by_json(events, steps, ranges):
    """Durations of kernels by the layer and phase of their operator, found with loops over the raw events."""
    layers, phases, operators = (collections.defaultdict(list) for _ in range(3))
    backward = [(start, end) for _, start, end, _, name, *_ in ranges if name == "backward"]
    for thread, start, end, _, _, layer, phase in ranges:
        again = layer is not None and any(begin <= start < stop for begin, stop in backward)
        phases[thread].append((start, end, "backward" if again else phase))
        if layer is not None:
            layers[thread].append((start, end, layer))
    made = {}
    inside = lambda at: any(begin <= at < stop for begin, stop, *_ in steps)  # noqa: E731
    for event in sorted((event for event in events if event["cat"] == "cpu_op"), key=lambda event: (event["ts"], -event["dur"])):
        start, end = _ns(event)
        if inside(start):
            operators[event["tid"]].append((start, end, event))
            if event["args"].get("Fwd thread id") == 0 and "Sequence number" in event["args"]:
                made.setdefault((event["tid"], event["args"]["Sequence number"]), []).append((event["tid"], start))
    calls = {event["args"]["correlation"]: event for event in events if event["cat"] == "cuda_runtime"}
    found = collections.defaultdict(lambda: [0, 0])
    for event in events:
        call = calls.get(event["args"].get("correlation")) if event["cat"] == "kernel" else None
        reaches = event["cat"] == "kernel" and any(_ns(event)[0] < stop and _ns(event)[1] > begin for begin, stop, *_ in steps)
        if reaches or (call and inside(_ns(call)[0])):
            key = _of_call(call["tid"], _ns(call)[0], operators, layers, phases, made) if call else (None, "other")
            found[key][0] += _ns(event)[1] - _ns(event)[0]
            found[key][1] += 1
    return {key: tuple(sums) for key, sums in found.items()}


def _of_call(thread, at, operators, layers, phases, made):
    around = [span for span in operators[thread] if span[0] <= at < span[1]]
    started = max(around, key=lambda span: (span[0], -span[1]))[0] if around else at
    layer, phase = _open(layers[thread], started), _open(phases[thread], started)
    functions = [event for _, _, event in around if event["args"].get("Fwd thread id", 0) > 0]
    if functions:
        asked = max(functions, key=lambda event: event["ts"])
        phase = phase or "backward"
        forward = made.get((542, asked["args"]["Sequence number"])) or made.get((639, asked["args"]["Sequence number"]))
        if layer is None and forward:
            layer = _open(layers[forward[-1][0]], forward[-1][1])
    return layer, phase or _open(phases[thread], at) or "other"


def test_the_file_is_read_once(resnet, monkeypatch):
    folder, *_ = resnet
    gathered, read = kineto.gather, []
    monkeypatch.setattr(kineto, "gather", lambda path, *a, **k: read.append(Path(path).name) or gathered(path, *a, **k))
    monkeypatch.setattr(captures_kineto.kineto_columns, "gather", lambda path, *_, **__: pytest.fail(f"{path} is read again"))
    Run(folder)._read_trace(Run(folder).kernels_pass())
    assert read == ["operators.pt.trace.json.gz"]


def test_kernels_of_kineto_get_the_layer_of_their_operator(resnet):
    folder, *raw = resnet
    kernels = ks.read(folder).kernels
    plain = kernels.astype({"layer": "object", "phase": "object"})
    grouped = plain.assign(layer=plain["layer"].fillna("")).groupby(["layer", "phase"])["duration_ns"].agg(["sum", "size"])
    found = {key: tuple(row) for key, row in zip(grouped.index, grouped.to_numpy().tolist(), strict=True)}
    expected = {(layer or "", phase): sums for (layer, phase), sums in _by_json(*raw).items()}
    assert found == expected
