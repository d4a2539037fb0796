"""Numbers published by others, as typed values: the tables in `data`, read once. Its README names the sources.

Hardware and versions are theirs. These values are never mixed with measured ones; `agreement` sets ratios side by side.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernelscope.analysis.errors import EvidenceError

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Publication:
    """The source of values. key: the content of `Value.source`. experiment: the sweep that repeats it. conditions: its setup."""

    key: str
    title: str
    experiment: str
    conditions: str


SOURCES = {
    source.key: source
    for source in (
        Publication(
            "thesis", "a thesis on evaluating deep-learning environments, 2018, appendix A", "thesis",
            "E5-2630 with 12 or 20 cores, one and two K20m, one and two P100; training, float32; means of 3 runs",
        ),
        Publication(
            "eleven", "a comparison of eleven frameworks in a public repository, 2017", "eleven",
            "K80 and P100, CUDA 8, cuDNN 6; seconds for the whole work",
        ),
        Publication(
            "keras_backends", "slides \"Benchmark on Deep Learning Frameworks\", about 2018", "keras_backends",
            "keras_benchmarks' MLP on 56 cores and on one GPU; line_profiler's tables",
        ),
    )
}  # fmt: skip

# The sources' names of frameworks -> ours. Caffe, Gluon (listed beside MXNet's symbols) and Knet have no counterpart.
FRAMEWORKS = {
    "Caffe2": "caffe2",
    "Chainer": "chainer",
    "CNTK": "cntk",
    "Keras(CNTK)": "keras-cntk",
    "Keras(MXNet)": "keras-mxnet",
    "Keras(TF)": "keras-tensorflow",
    "Keras(Theano)": "keras-theano",
    "Lasagne(Theano)": "lasagne",
    "MXNet": "mxnet",
    "PyTorch": "pytorch",
    "Pytorch": "pytorch",
    "TensorFlow": "tensorflow",
    "Tensorflow": "tensorflow",
}
_CIFAR10 = {
    "AlexNet": "alexnet_cifar10",
    "ResNet50": "resnet50_cifar10",
    "GoogLeNet": "googlenet_cifar10",
    "VGG16": "vgg16_cifar10",
}
_IMAGENET = {"AlexNet": "alexnet", "ResNet50": "resnet50", "GoogLeNet": "googlenet", "VGG16": "vgg16"}
_NETWORKS = {"MNIST": {"LeNet": "lenet"}, "CIFAR10": _CIFAR10, "ImageNet": _IMAGENET}
# workload of eleven_frameworks.csv -> dataset, network in the source's words, metric, our network and mode
_WORKLOADS = {
    "cnn_cifar10_train": ("CIFAR10", "CNN", "training_time", "cifarcnn", "train"),
    "resnet50_features_1000_images": ("ImageNet", "ResNet50 features", "inference_time", "resnet50", "infer"),
    "gru_imdb_train": ("IMDB", "GRU", "training_time", "gru", "train"),
}
# table of keras_lines.csv -> framework and hardware in the source's words
_TABLES = {
    "keras_tensorflow_cpu": ("Keras(TF)", "cpu"),
    "keras_mxnet_mkl_cpu": ("Keras(MXNet)", "cpu"),
    "keras_tensorflow_gpu": ("Keras(TF)", "1xGPU"),
    "keras_mxnet_gpu": ("Keras(MXNet)", "1xGPU"),
}
_FIT = "model.fit("


@dataclass(frozen=True)
class Value:
    """One published number with the source's own names. value: None if missing; `note` says why, or what is implausible.

    comparable: whether it may be compared with anything. our_framework, our_network, our_mode: our counterparts, None if there is
    none. device, devices: the kind of hardware, "cpu" or "cuda", and how many.
    """

    source: str
    dataset: str
    network: str
    framework: str
    hardware: str
    metric: str
    value: float | None
    unit: str
    note: str
    comparable: bool
    our_framework: str | None
    our_network: str | None
    our_mode: str
    device: str
    devices: int


@dataclass(frozen=True)
class LineRow:
    """One line of a published line_profiler table; times in µs, None if the table has none: the line did not run."""

    run: str
    line: int
    hits: int | None
    time_us: float | None
    per_hit_us: float | None
    percent: float | None
    source: str


@dataclass(frozen=True)
class Statement:
    """One statement of a published line_profiler table, its lines joined. time_us: None if unknown or if it did not run."""

    run: str
    line: int
    source: str
    time_us: float | None
    percent: float | None


@cache
def values() -> tuple[Value, ...]:
    """Return every published value, by source, in the order of the files."""
    return (*_thesis(), *_eleven(), *_keras())


def _thesis() -> Iterator[Value]:
    rows = [(place, row, _number(row["value"], place)) for place, row in _rows("thesis.csv")]
    rates = {_identity(row): value for _, row, value in rows if row["metric"] == "throughput"}
    for _, row, value in rows:
        device, devices = _hardware(row["hardware"])
        implausible = _doubt(row, value, rates)
        yield Value(
            "thesis", row["dataset"], row["network"], row["framework"], row["hardware"], row["metric"], value, row["unit"],
            "; ".join(filter(None, (row["note"], implausible))),
            value is not None and not (device == "cpu" and row["metric"] != "throughput"),
            FRAMEWORKS.get(row["framework"]), _NETWORKS[row["dataset"]][row["network"]], "train", device, devices,
        )  # fmt: skip


def _doubt(row: dict[str, str], value: float | None, rates: dict[tuple[str, ...], float | None]) -> str:
    """Return why a value of the thesis is implausible; empty if it is not."""
    if value is None:
        return ""
    if row["hardware"] == "cpu" and row["metric"] == "gpu_memory":
        return "0 by definition: no GPU was used"
    if row["hardware"] == "cpu" and row["metric"] == "gpu_power":
        return "the power of the GPU, which was idle"
    if row["metric"] == "throughput" and row["hardware"].startswith("2x"):
        alone = rates.get(_identity({**row, "hardware": "1x" + row["hardware"][2:]}))
        return "slower than one GPU of the same kind, in the source" if alone is not None and value < alone else ""
    return ""


def _identity(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[key] for key in ("dataset", "network", "framework", "hardware"))


def _eleven() -> Iterator[Value]:
    for place, row in _rows("eleven_frameworks.csv"):
        dataset, network, metric, ours, mode = _WORKLOADS[row["workload"]]
        value = _number(row["seconds"], place)
        kernels = {"Yes": "with cuDNN's recurrent kernels", "No": "without cuDNN's recurrent kernels"}.get(row["uses_cudnn"], "")
        note = "; ".join(filter(None, ("" if value is not None else "not submitted", kernels)))
        yield Value(
            "eleven", dataset, network, row["framework"], f"1x{row['gpu']}", metric, value, row["unit"], note, value is not None,
            FRAMEWORKS.get(row["framework"]), ours, mode, "cuda", 1,
        )  # fmt: skip


def _keras() -> Iterator[Value]:
    for run, (framework, hardware) in _TABLES.items():
        fit = next(statement for statement in statements(run) if statement.source.startswith(_FIT))
        device, devices = _hardware(hardware)
        seconds = fit.time_us / 1e6 if fit.time_us is not None else None
        note = "" if seconds is not None else "the table lacks the last line of model.fit, which has its time"
        yield Value(
            "keras_backends", "MNIST", "MLP", framework, hardware, "fit_time", seconds, "s", note, seconds is not None,
            FRAMEWORKS.get(framework), "mlp", "train", device, devices,
        )  # fmt: skip


@cache
def line_rows() -> tuple[LineRow, ...]:
    """Return the lines of the published line_profiler tables, by table."""
    return tuple(
        LineRow(
            run=row["run"],
            line=int(row["line"]),
            hits=int(row["hits"]) if row["hits"] else None,
            time_us=_number(row["time_us"], place),
            per_hit_us=_number(row["per_hit_us"], place),
            percent=_number(row["percent"], place),
            source=row["source"],
        )
        for place, row in _rows("keras_lines.csv")
    )


def line_runs() -> tuple[str, ...]:
    """Return the names of the published line_profiler tables."""
    return tuple(_TABLES)


def statements(run: str) -> list[Statement]:
    """Return a table's statements: lines are joined while a bracket is open, and their times summed.

    A call that spans lines has its time on its last line, so the time of a statement whose last line has none is unknown.
    """
    result: list[Statement] = []
    lines: list[LineRow] = []
    depth = 0
    for row in line_rows():
        if row.run != run:
            continue
        lines.append(row)
        depth += sum(map(row.source.count, "([{")) - sum(map(row.source.count, ")]}"))
        if depth <= 0:
            result += [_statement(lines)] if lines[0].source else []
            lines, depth = [], 0
    return result


def _statement(lines: list[LineRow]) -> Statement:
    text = " ".join(line.source for line in lines)
    if lines[-1].time_us is None:
        return Statement(lines[0].run, lines[0].line, text, None, None)
    time_us = sum(line.time_us or 0.0 for line in lines)
    return Statement(lines[0].run, lines[0].line, text, time_us, sum(line.percent or 0.0 for line in lines))


def _hardware(name: str) -> tuple[str, int]:
    """Return the kind and number of devices for a hardware name such as cpu or 2xP100."""
    return ("cpu", 1) if name == "cpu" else ("cuda", int(name.partition("x")[0]))


def _rows(name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a shipped table, each with its place, for messages."""
    file = DATA / name
    try:
        with file.open(encoding="utf8", newline="") as lines:
            for number, row in enumerate(csv.DictReader(lines), 2):
                yield f"{file}:{number}", row
    except OSError as error:
        raise EvidenceError(f"{file}: {error.strerror or error}; install kernelscope again") from error


def _number(text: str, place: str) -> float | None:
    """Return a number, None for an empty text; raise EvidenceError for any other text."""
    if not text:
        return None
    parse: Callable[[Any], float] = float
    try:
        return parse(text)
    except ValueError:
        raise EvidenceError(f"{place}: {text!r} is not a number; install kernelscope again") from None
