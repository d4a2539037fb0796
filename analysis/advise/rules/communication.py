"""Communication between devices that nothing hides."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.device_account import COMMUNICATION
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_GRADIENTS = re.compile(r"(?i)all_?reduce|reduce_?scatter|all_?gather")  # what exchanges gradients and parameters
_REMEDIES = {
    "pytorch": "overlap it with the backward pass: DistributedDataParallel(bucket_cap_mb=..., gradient_as_bucket_view=True, "
    "static_graph=True); fewer synchronisations with no_sync() and accumulation; gradients in half precision (comm hooks)",
    "": "overlap it with the backward pass, send larger pieces, or send half-precision gradients",
}
_INFERENCE = (
    "hide it behind the work of another micro-batch, or fuse it with what comes next; split the model so that less is exchanged"
)
_OTHERS = {
    "pytorch": "start it earlier and compute what does not need it meanwhile: async_op=True of all_to_all and send, TorchRec's "
    "TrainPipelineSparseDist; narrower types on the wire",
    "": "start it earlier and compute what does not need it meanwhile; narrower types on the wire",
}


def exposed(subject: Subject) -> list[Advice]:
    """Devices exchange data and compute nothing meanwhile."""
    rows = subject.part(COMMUNICATION)
    ns = words.time_of(rows)
    whole = float(rows["duration_ns"].sum())
    infers = len(subject.trace.operators) > 0 and not (subject.rows["phase"] == "backward").fillna(False).any()
    gradients = not infers and 2 * words.time_of(rows[_of_gradients(rows)]) > ns
    link = "https://docs.pytorch.org/docs/stable/notes/ddp.html" if gradients and subject.framework == "pytorch" else ""
    took = f"{words.share(subject, ns)} {subject.per}"
    hides = max(words.time_of(subject.kernels()) - max(whole - ns, 0), 0)  # what computes, and hides nothing yet
    saves = min(float(ns), max(hides, ns / 2)) if subject.timeline else ns / 2
    estimate = "half of it, by sending half the bytes; what could hide it is not known"
    if subject.timeline:
        estimate = f"what computes can hide {words.duration(min(hides, ns))} of it, and half the bytes take half the time"
        title = "communication between devices is not hidden behind computation"
        said = f"Nothing computes beside {took} of {words.duration(whole)} of communication: {words.kernels(rows)}."
    else:
        title = "devices communicate; beside what is not known"
        said = f"Communication takes {took}: {words.kernels(rows)}."
    return [
        Advice(
            "communication",
            title,
            saves,
            f"{estimate}; waiting for a slower rank is in it",
            [said],
            _INFERENCE if infers else words.text(subject, _REMEDIES if gradients else _OTHERS),
            link,
            words.ids(rows),
        )
    ]


def _of_gradients(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which kernels exchange gradients or parameters, by their own names or by the operators that launched them."""
    names = rows["name"].fillna("") + " " + rows["operator"].fillna("")
    return names.str.contains(_GRADIENTS).to_numpy(bool)


RULES: tuple[Rule, ...] = (exposed,)
