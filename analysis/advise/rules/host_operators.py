"""In totals of TensorFlow and PyTorch, operators that compute on the host alone although a device is there."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.formats import scopes

_MUCH = 0.2  # of the device's work
_NAMED = 3
_LONG_CALL = 100_000  # ns: launching takes less
_REMEDIES = {
    "tensorflow": "place {} on the device: log_device_placement=True tells where each operator runs; check tf.device(...) "
    "blocks, and that the type has a kernel for the device (float32 rather than float64 or integers)",
    "pytorch": "let {} run on the device: make tensors there (torch.randn(..., device='cuda')) rather than on the host with "
    ".cuda() or .to() behind, and call .to(device) on the model and its input before they compute",
}
_LINKS = {
    "tensorflow": "https://www.tensorflow.org/guide/gpu#logging_device_placement",
    "pytorch": "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
}
# Of PyTorch's operators those that compute each element: others make, describe or move memory, and a first call may take long
_COMPUTE = re.compile(
    r"aten::(?:normal|uniform|random|bernoulli|exponential|randperm|multinomial|mm|addmm|bmm|baddbmm|addbmm|mkldnn_\w+|thnn_\w+|"
    r"slow_conv\w+|native_\w+_norm|sort|topk|index_select|gather|cumsum|_fft\w*|_?unique\w*|searchsorted|_?cdist\w*|add|sub|mul|div|"
    r"pow|exp|log|sqrt|sin|cos|tanh|sigmoid|sum|mean|std|var|max|min|clamp|where|cat)_?"
)
_NO_WORK = r"Iterator|Queue|Dataset|Read|Decode|Parse|Recv|Send|Barrier|Staging|Summary|Save|Restore"  # input, waits and files


def on_the_host(subject: Subject) -> list[Advice]:
    """Operators that compute have no work on the device, and take a noticeable part of its time on the host."""
    sums = alone(subject)
    if sums.empty:
        return []
    listed = ", ".join(f"{name} {words.duration(ns)}" for name, ns in sums.items())
    plural = len(sums) > 1
    return [
        Advice(
            "operators on the host",
            f"{' and '.join(map(str, sums.index))} {'run' if plural else 'runs'} on the host alone",
            float(sums.sum()),
            "at most their time on the host, which includes waits, if nothing else runs meanwhile",
            [f"None of {'their' if plural else 'its'} work on the device was recorded; on the host: {listed}."],
            words.text(subject, {name: text.format("them" if plural else "it") for name, text in _REMEDIES.items()}),
            words.text(subject, _LINKS),
            last=float(sums.sum()) < subject.step_ns,
        )
    ]


def alone(subject: Subject) -> pd.Series:
    """Return the time (ns) on the host of the largest such operators by name."""
    if subject.timeline or subject.on_host or subject.framework not in _SUMS:
        return pd.Series(dtype=float)
    sums = _SUMS[subject.framework](subject).nlargest(_NAMED)
    return sums[sums >= _MUCH * subject.step_ns]


def _of_tensorflow(subject: Subject) -> pd.Series:
    """Return the time on the host of the operators that no kernel belongs to."""
    totals = subject.trace.totals
    names = totals["name"].astype("string")
    on_device = set(subject.trace.kernels["operator"].dropna())
    mine = (totals["table"] == "operators") & ~names.isin(list(on_device))
    mine &= ~names.str.match(scopes.STEERING) & ~names.str.contains(_NO_WORK)
    return totals["duration_ns"].astype(float)[mine.fillna(False).to_numpy(bool)].groupby(names).sum()


def _of_pytorch(subject: Subject) -> pd.Series:
    """Return the own time on the host of operators that have no time on the device, if the table tells of both."""
    own: dict[str, dict[str, Any]] = subject.trace.info.get("host_own") or {}
    if not any(one["device_ns"] for one in own.values()):  # older tables do not tell
        return pd.Series(dtype=float)
    totals = subject.trace.totals
    calls = (
        totals["count"].astype(float)[(totals["table"] == "operators").to_numpy(bool)].groupby(totals["name"].astype("string"))
    )
    ns = pd.Series({name: one["ns"] for name, one in own.items() if not one["device_ns"]}, dtype=float)
    computes = [bool(_COMPUTE.fullmatch(name)) for name in ns.index]
    return ns[np.array(computes, dtype=bool) & (ns >= _LONG_CALL * calls.sum().reindex(ns.index)).to_numpy(bool)]


_SUMS = {"tensorflow": _of_tensorflow, "pytorch": _of_pytorch}
RULES: tuple[Rule, ...] = (on_the_host,)
