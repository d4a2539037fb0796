"""Layouts and casts: kernels that only change how tensors lie in memory, or their type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.advise import sequences, words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.trace import CONVOLUTIONS, MAIN

_REMEDIES = {
    "pytorch": "model.to(memory_format=torch.channels_last) and the same for the input",
    "tensorflow": "use one data_format in all layers, the one that convolutions compute in: 'channels_last' on processors and "
    "for tensor cores, else 'channels_first', to which TensorFlow's layout optimizer converts on GPUs",
    "mxnet": "layout='NHWC' on GPUs",
    "": "keep one layout throughout, the one that the convolutions compute in",
}
_IN_3D = {"pytorch": "model.to(memory_format=torch.channels_last_3d) and the same for the input"}
_BLOCKED = {
    "pytorch": "model.to(memory_format=torch.channels_last) and the same for the input, or for inference torch.compile with "
    "freezing (torch._inductor.config.freezing = True), or mkldnn.to_mkldnn(model) of torch.utils with input.to_mkldnn()",
    "tensorflow": "leave TF_ENABLE_ONEDNN_OPTS=1 on and run the model as one tf.function: its layout pass keeps oneDNN's blocked "
    "layout between operators",
    "": "keep tensors in the library's blocked layout between operators, as frameworks do in graph mode (PyTorch: channels_last, "
    "torch.compile with freezing, or to_mkldnn)",
}
_NO_CONVOLUTIONS = "fewer transposes and permutations: keep tensors in the order in which products read them"
# Of the time of products and convolutions: a transformer that cuts an image into patches has one convolution, too
_CONVOLVES = 0.2
_MOST = 0.5  # of the convolutions: at least this share has tensors converted, and converted back
_OF_DATA = r"dst (\w+)"
_ENDS = r"^src (\w+), dst (\w+)$"
# cuDNN's convolutions of three dimensions; a tensor and weights of five sizes; oneDNN's sizes with depths
_THREE = (
    r"(?i)convolveNd_\w*<[^,]*, (?:\(int\))?3\b|conv_?3d|vol2col|ndhwc"
    r"|(?:^| )\d+(?:x\d+){4}:\d+(?:x\d+){4}\b|_id\d+od\d+kd\d+"
)
_TWO = r"(?i)implicit_convolve_|winograd|conv_?2d|(?:^| )\d+(?:x\d+){3}:\d+(?:x\d+){3}\b|_ic\d+oc\d+_ih\d+"
_TELLING = 0.05  # of the convolutions' time: kernels that tell their dimensions take more
# Of conversions: libraries for processors reorder weights whatever the layout (docs/validation/confirming.md)
_ON_HOST = 1 / 3
# Layouts of MKL-DNN 0.x name what lies in them: n and c are of data, o and i of weights
_OF_INPUT = r"^src (?=\w*[nN])(?=\w*[cC])[nNtTcCdhw\d]+, dst (?=\w*[nN])(?=\w*[cC])[nNtTcCdhw\d]+$"
_OF_WEIGHTS = r"^src (?=\w*[oO])(?=\w*[iI])[gGoOiIdhwx\d]+, dst (?=\w*[oO])(?=\w*[iI])[gGoOiIdhwx\d]+$"
_CASTS = {
    "pytorch": "give data and parameters one type at the start; keep weights in the type that autocast uses (or cache them)",
    "": "keep one type throughout",
}


@dataclass(frozen=True)
class _Around:
    """Conversions around convolutions: from the layout of their tensors to a plain one (out) and back (into). ns: of both."""

    ns: int
    out: float
    into: float
    convolutions: float
    blocked: str
    plain: str

    def told(self, subject: Subject) -> str:
        """Say how often tensors go out and back."""
        out, into = words.count(self.out), words.count(self.into)
        return (
            f"{words.count(self.convolutions)} {'convolution computes' if self.convolutions == 1 else 'convolutions compute'} in "
            f"{self.blocked}: {out} {'conversion' if self.out == 1 else 'conversions'} from it to {self.plain}, and {into} back, "
            f"take {words.share(subject, self.ns)}."
        )


def _around(kernels: pd.DataFrame) -> _Around | None:
    """Return the conversions from and to the layout in which most convolutions compute, if most convolutions have both."""
    convolves = kernels["kind"].isin(CONVOLUTIONS).to_numpy(bool)
    count = kernels["count"].to_numpy(float)
    named = kernels["layout"].astype("string")
    of_data = named[convolves].str.extract(_OF_DATA, expand=False)  # what a convolution writes, the next one could read
    sums = pd.Series(count[convolves], index=of_data.index).groupby(of_data).sum()
    if sums.empty:
        return None
    blocked, number = str(sums.idxmax()), float(sums.max())
    ends = named.where((kernels["kind"] == "layout").fillna(False)).str.extract(_ENDS)
    leaves = ends.index[((ends[0] == blocked) & (ends[1] != blocked)).fillna(False).to_numpy(bool)]
    plain = str(ends.loc[leaves, 1].mode().iloc[0]) if len(leaves) else ""
    out = ((ends[0] == blocked) & (ends[1] == plain)).fillna(False).to_numpy(bool)
    into = ((ends[0] == plain) & (ends[1] == blocked)).fillna(False).to_numpy(bool)
    if min(count[out].sum(), count[into].sum()) < _MOST * number:
        return None
    ns = int(kernels["duration_ns"].to_numpy(float)[out | into].sum())
    return _Around(ns, float(count[out].sum()), float(count[into].sum()), number, blocked, plain)


def _there_and_back(kernels: pd.DataFrame) -> int:
    """Return the time of conversions of tensors of one size that others of the same size undo, in ns: none of them is of weights.

    Weights are converted in one direction only.
    """
    ends = kernels["layout"].astype("string").where((kernels["kind"] == "layout").fillna(False)).str.extract(_ENDS)
    known = (ends[0].notna() & kernels["problem"].notna()).to_numpy(bool)
    table = pd.DataFrame({"size": kernels["problem"], "of": ends[0], "to": ends[1], "count": kernels["count"].astype(float)})
    table = table.assign(ns=kernels["duration_ns"].astype(float))[known]
    sums = table.groupby(["size", "of", "to"])[["count", "ns"]].sum().reset_index()
    both = sums.merge(sums, left_on=["size", "of", "to"], right_on=["size", "to", "of"], suffixes=("", "_back"))
    return int((both["ns"] * np.minimum(1.0, both["count_back"] / both["count"])).sum())


def _by_names(kernels: pd.DataFrame) -> tuple[int, int] | None:
    """Return the time of conversions of data and of weights in ns; None unless the layouts' names tell of each which it is."""
    rows = kernels[(kernels["kind"] == "layout").fillna(False).to_numpy(bool)]
    named = rows["layout"].astype("string").fillna("")
    data, weights = (named.str.contains(pattern).to_numpy(bool) for pattern in (_OF_INPUT, _OF_WEIGHTS))
    took = rows["duration_ns"].to_numpy(float)
    return (int(took[data].sum()), int(took[weights].sum())) if len(rows) and (data | weights).all() else None


def in_3d(subject: Subject) -> bool:
    """Return whether convolutions are three-dimensional, by those whose names or sizes tell how many dimensions they have."""
    rows = subject.kernels(CONVOLUTIONS)
    columns = ("name", "operator", "problem")
    named = rows[list(columns)].astype("string").fillna("").agg(" ".join, axis=1) if len(rows) else pd.Series(dtype="string")
    three, two = (words.time_of(rows[named.str.contains(pattern).to_numpy(bool)]) for pattern in (_THREE, _TWO))
    return three > max(two, _TELLING * words.time_of(rows))


def conversions(subject: Subject) -> list[Advice]:
    """Tensors change their layout between layers."""
    if subject.on_host and subject.framework.endswith("jax"):
        return []  # XLA chooses layouts there, whatever the program asks for
    if subject.framework == _TENSORRT:
        return _of_engine(subject)
    rows = subject.kernels(("layout",))
    ns = words.time_of(rows)
    if subject.kernels(MAIN).empty:
        return []  # no network: what moves data there is the program's work
    convolves = words.time_of(subject.kernels(CONVOLUTIONS)) > _CONVOLVES * words.time_of(subject.kernels(MAIN))
    saves, estimate = ns, "all of it, if one layout is kept"
    title, evidence = "tensors change their layout in memory between layers", words.where(rows, "layer")
    remedy = words.text(subject, {**_REMEDIES, **(_IN_3D if in_3d(subject) else {})}) if convolves else _NO_CONVOLUTIONS
    if subject.on_host:
        saves, estimate = round(_ON_HOST * ns), "a third of it: libraries for processors reorder weights whatever the layout"
        around = _around(subject.trace.kernels) if not subject.facts and convolves else None
        if around:
            title = "tensors change their layout around each convolution, and back"
            saves, estimate = max(around.ns, saves), "the conversions that the next one undoes; reordering of weights remains"
            evidence = [around.told(subject), *evidence]
            remedy = words.text(subject, _BLOCKED)
        elif not subject.facts and (named := _by_names(subject.trace.kernels)) is not None:
            saves, remedy = named[0], words.text(subject, _BLOCKED) if convolves else remedy
            estimate = "the conversions of data, by the names of the layouts; those of weights remain"
            evidence = [f"Of data: {words.duration(named[0])}; of weights: {words.duration(named[1])}.", *evidence]
        elif not subject.facts and (back_ns := _there_and_back(subject.trace.kernels)) > saves:
            title = "tensors are converted to another layout, and back"
            saves, estimate = back_ns, "the conversions that others of the same size undo; reordering of weights remains"
    return [
        Advice(
            "layout",
            title,
            saves,
            estimate,
            [f"Conversions take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}.", *evidence],
            remedy,
            "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html"
            if subject.framework == "pytorch" and convolves
            else "",
            words.ids(rows),
        )
    ]


_TENSORRT = "tensorrt"
WAITING, CHANGING = "waiting for the DLA", "changing formats"  # parts of an iteration
_REFORMATS = r"^Reformatting CopyNode | (?:in|out)put reformatter \d+$"
_FORMATS = (
    "at the engine's inputs and outputs: give them the type and format in which the layers beside them compute (trtexec "
    "--inputIOFormats, --outputIOFormats, such as fp16:chw; ITensor.setAllowedFormats); between layers: allow all of them the "
    "same precision, and plugins the formats of their neighbours (--dumpLayerInfo --profilingVerbosity=detailed shows both)"
)


def of_engine(subject: Subject, rows: pd.DataFrame) -> pd.Series:
    """Return what layers of TensorRT's engines do that compute nothing: WAITING or CHANGING; null for all other rows."""
    result = pd.Series(pd.NA, index=rows.index, dtype="string")
    if subject.framework != _TENSORRT:
        return result
    waits = (subject.trace.info.get("dla") or {}).get("waits", [])
    changes = (rows["kind"] == "layout") & rows["name"].astype("string").str.contains(_REFORMATS)
    return result.mask(changes.fillna(False).to_numpy(bool), CHANGING).mask(rows["name"].isin(waits).to_numpy(bool), WAITING)


def _of_engine(subject: Subject) -> list[Advice]:
    """Return advice on the copies that TensorRT puts between layers; transpositions of the network's own are none."""
    rows = subject.kernels(("layout",))
    rows = rows[rows["name"].astype("string").str.contains(_REFORMATS).fillna(False).to_numpy(bool) & (rows["time_ns"] > 0)]
    ns = words.time_of(rows)
    of = "of an iteration" if subject.trace.info.get("iteration") else subject.per
    return [
        Advice(
            "layout",
            "TensorRT copies tensors into other formats or types between layers",
            ns,
            "all of it, if the layers around the copies agree on one format",
            [f"{words.count(len(rows))} such copies take {words.share(subject, ns)} {of}: {words.kernels(rows)}."],
            _FORMATS,
            "",
            words.ids(rows),
        )
    ]


_FUSING = (
    "place QuantizeLinear and DequantizeLinear where TensorRT fuses them: at the inputs and weights of convolutions and matrix "
    "products, at both inputs of residual additions, and none between a convolution and its batch norm or activation (NVIDIA's "
    "Model Optimizer and pytorch-quantization place them so)"
)


def quantising(subject: Subject) -> list[Advice]:
    """Layers of TensorRT's engines that only quantise or dequantise: those that it could fuse with no other."""
    if subject.framework != _TENSORRT:
        return []
    rows = subject.kernels(("cast",))
    rows = rows[rows["name"].str.contains(_QUANTISED).fillna(False).to_numpy(bool) & (rows["time_ns"] > 0).to_numpy(bool)]
    ns = words.time_of(rows)
    of = "of an iteration" if subject.trace.info.get("iteration") else subject.per
    which = "layer takes" if len(rows) == 1 else "layers take"
    return [
        Advice(
            "quantisation",
            "layers only quantise or dequantise tensors: TensorRT did not fuse them",
            ns,
            "all of it, if other layers do it as they read and write; the network's input must be quantised once",
            [f"{words.count(len(rows))} such {which} {words.share(subject, ns)} {of}: {words.kernels(rows)}."],
            _FUSING,
            "",
            words.ids(rows),
        )
    ]


_ONCE = "convert data once, outside of the loop, or create it in the type that is computed with; keep one type throughout"
CONVERSION, COPY = "aten::_to_copy", "aten::copy_"
_SEVERAL = 20  # conversions on a device: fewer may be transfers of inputs
_NORM = (
    "most of them are around norms that compute in float32: torch.nn.functional.rms_norm, or torch.compile of the norm, does "
    "that inside one kernel, without writing float32 tensors"
)
_NEAR = 3  # kernels of a stream between a cast and the power or root of its norm, at most
_QUANTISED = r"(?i)quant"  # casts that are part of quantisation
_UNPACKS = r"(?i)dequant"


def casts(subject: Subject) -> list[Advice]:
    """Tensors change their type."""
    rows = subject.kernels(("cast",))
    rows = rows[~rows["name"].str.contains(_QUANTISED).fillna(False).to_numpy(bool)]
    copying, copied_ns = _inside(subject)
    ns = words.time_of(rows) + copied_ns
    of_norms = subject.framework == "pytorch" and subject.timeline and _of_norms(subject)
    return [
        Advice(
            "casts",
            f"tensors change their type{'' if subject.per != STEPS and copied_ns else ' in each step'}",
            ns,
            "all of it, if one type is kept",
            [f"Casts take {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}{_said(copying, copied_ns)}."],
            _NORM if of_norms else _ONCE if subject.on_host and copied_ns else words.text(subject, _CASTS),
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html" if of_norms else "",
            words.ids(rows) | words.ids(copying),
        )
    ]


def _inside(subject: Subject) -> tuple[pd.DataFrame, float]:
    """Return the rows of PyTorch's copies in totals of operators, and how long they run within conversions, in ns.

    A conversion (_to_copy) copies once. On a device, it may also be a transfer: only if there are as many of them as
    products and convolutions, they are casts of each layer's tensors.
    """
    rows = subject.kernels()
    copying, converting = (rows[(rows["operator"] == name).fillna(False).to_numpy(bool)] for name in (COPY, CONVERSION))
    copies, number = float(copying["count"].sum()), float(converting["count"].sum())
    if subject.timeline or not copies or not number:
        return copying.iloc[:0], 0.0
    ns = words.time_of(copying) * min(number / copies, 1.0)
    if subject.on_host:
        totals = subject.trace.totals
        whole = totals[((totals["table"] == "operators") & (totals["name"] == CONVERSION)).fillna(False).to_numpy(bool)]
        return copying, min(ns, max(float(whole["duration_ns"].sum()) - words.time_of(converting), 0.0))
    layers = float(subject.kernels(MAIN)["count"].max()) if len(subject.kernels(MAIN)) else 0.0
    return (copying, ns) if layers and number >= max(layers / 2, _SEVERAL) else (copying.iloc[:0], 0.0)


def _said(copying: pd.DataFrame, ns: float) -> str:
    """Say how much of the copies counts as casts."""
    if not ns:
        return ""
    calls = words.count(float(copying["count"].sum()))
    return (
        f", and {words.duration(ns)} of {calls} x {COPY} ({words.duration(words.time_of(copying))}), in proportion to the numbers"
    )


def _of_norms(subject: Subject) -> bool:
    """Return whether most of the casts' time is around written-out norms: before the power, or after the root."""
    kernels = sequences.ordered(subject)
    operators = kernels["operator"].astype("string")
    casts = (kernels["kind"] == "cast").fillna(False).to_numpy(bool)
    power, root = (operators.isin([f"aten::{name}", f"aten::{name}_"]).to_numpy(bool) for name in ("pow", "rsqrt"))
    place = np.arange(len(kernels))
    following = _next(place, power)
    since = len(kernels) - 1 - _next(place, root[::-1])[::-1]
    near = (following - place <= _NEAR) | (place - since <= _NEAR)
    took = kernels["duration_ns"].to_numpy(float)
    return bool(2 * took[casts & near & root.any()].sum() > took[casts].sum())


def _next(place: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the place of the first chosen one at or after each place; far behind all if there is none."""
    at = np.append(np.flatnonzero(chosen), 2 * len(place) + _NEAR)
    return np.asarray(at[np.searchsorted(at[:-1], place)], dtype=np.int64)


def unpacking(subject: Subject) -> list[Advice]:
    """Quantised weights are unpacked by separate kernels, before the products that need them."""
    if subject.framework == _TENSORRT:
        return []  # see quantising
    rows = subject.kernels(("cast",))
    rows = rows[rows["name"].str.contains(_UNPACKS).fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    return [
        Advice(
            "quantisation",
            "quantised weights are unpacked before they are multiplied",
            ns,
            "all of it, if the product unpacks what it multiplies",
            [f"Unpacking takes {words.share(subject, ns)} {subject.per}: {words.kernels(rows)}."],
            "use products that unpack weights as they read them (Marlin, AWQ and GPTQ kernels, llama.cpp mul_mat_q), or keep "
            "weights unpacked if many rows are multiplied at once",
            "",
            words.ids(rows),
        )
    ]


RULES: tuple[Rule, ...] = (conversions, casts, quantising, unpacking)
