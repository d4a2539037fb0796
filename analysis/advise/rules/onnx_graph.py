"""ONNX Runtime's own profile: graphs that were not optimised, time between many small nodes, float16 on processors."""

from __future__ import annotations

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.advise import onnx_notes, sequences, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.formats.onnxruntime import first_run, nodes
from kernelscope.analysis.formats.onnxruntime import unoptimised as unoptimised_nodes

TOPIC = "graph optimisation"
LEVEL = unoptimised_nodes.LEVEL
_LINK = "https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html"
_FUSED, _REMOVED = "activations and normalisations behind convolutions", "transpositions that cancel each other"
_FASTER = "; convolutions may get faster, too, in the layout that the optimizer chooses for them"
_NOTICEABLE = 0.15  # of a step: what well-made graphs spend between nodes
_SMALL = 20_000  # ns between two nodes; what takes longer is not dispatch


def is_profile(subject: Subject) -> bool:
    """Return whether this is ONNX Runtime's own profile, not a recorded run."""
    return first_run.is_profile(subject.trace)


def between_nodes(subject: Subject) -> list[Advice]:
    """Nodes are so small that ONNX Runtime spends much of a run between them."""
    if not is_profile(subject) or not subject.on_host or not subject.timeline:
        return []
    idle = subject.idle((idle_causes.OPERATOR, idle_causes.RANGE))
    rows, kernels = idle[idle["layer"].isna().to_numpy(bool)], subject.kernels()
    ns, count = words.time_of(rows), float(kernels["count"].sum())
    if not count or ns < _NOTICEABLE * subject.step_ns or ns > _SMALL * count:
        return []
    mean = words.time_of(kernels) / count
    return [
        Advice(
            "dispatch",
            "the model has so many small nodes that much time is spent between them",
            ns,
            "all of it; unrecorded steps spend less there, since the profiler adds some microseconds to each node",
            [
                f"Between nodes: {words.share(subject, ns)} {subject.per}, {words.duration(ns / count)} for each of "
                f"{words.count(count)} nodes, which take {words.duration(mean)} each on average."
            ],
            f"fewer nodes: {LEVEL} fuses what it can; simplify the model (fold constants, one operator instead of several); "
            "larger batches",
            _LINK,
            words.ids(rows),
        )
    ]


def unoptimised(subject: Subject) -> list[Advice]:
    """Nodes that ONNX Runtime's optimizer fuses or removes are still there, and no node shows that it ran."""
    steps = max(subject.count, 1)
    kernels = sequences.without_outliers(unoptimised_nodes.left_over(subject.trace), subject.count)
    if kernels.empty:
        return []
    names = kernels.assign(time_ns=kernels["duration_ns"] / steps, count=kernels["count"] / steps)
    ns = float(names["time_ns"].sum())
    rows = subject.kernels()
    rows = rows[rows["name"].isin(kernels["name"].unique()).to_numpy(bool)]
    return [
        Advice(
            TOPIC,
            "ONNX Runtime's graph optimisation seems to be off",
            ns,
            f"the time of these nodes{_FASTER if (kernels['operator'] != 'Transpose').any() else ''}",
            [
                f"The optimizer fuses {_FUSED} and removes {_REMOVED}: {words.share(subject, ns)} {subject.per} in "
                f"{words.kernels(names)}. No node's name shows that it ran."
            ],
            LEVEL,
            _LINK,
            words.ids(rows),
            modelled=True,
        )
    ]


def notes(subject: Subject) -> list[str]:
    """Return notes on nodes and runs (see onnx_notes), and on nodes of float16 that compute in float32.

    That costs few casts, but is not what the model's type says.
    """
    return [*onnx_notes.notes(subject), *_in_float32(subject)]


def _in_float32(subject: Subject) -> list[str]:
    """Say that nodes of float16 compute in float32."""
    names = subject.trace.kernels["name"].astype("string").dropna().unique()
    if not is_profile(subject) or not subject.on_host or not any(map(nodes.is_inserted_cast, names)):
        return []
    return [
        "nodes of float16 compute in float32 here, between casts that ONNX Runtime put in: the CPU provider lacks float16 for "
        "them, so the type saves no time"
    ]


RULES: tuple[Rule, ...] = (between_nodes, unoptimised)
