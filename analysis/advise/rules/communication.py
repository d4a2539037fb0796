"""Communication between devices that is not hidden behind computation."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.device_account import COMMUNICATION, on_device
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.messages import messages
from kernelscope.analysis.formats.ascend.tasks import STILL
from kernelscope.analysis.kernels.short_names import short

_GRADIENTS = re.compile(r"(?i)all_?reduce|reduce_?scatter|all_?gather")  # what exchanges gradients or parameters
_REMEDIES = {
    "pytorch": "overlap it with the backward pass: DistributedDataParallel(bucket_cap_mb=..., gradient_as_bucket_view=True, "
    "static_graph=True); synchronise less often with no_sync() and accumulation",
    "": "overlap it with the backward pass, or send larger pieces",
}
_HALVED = {"pytorch": "; send gradients in half precision (comm hooks)", "": "; send gradients in half precision"}
_INFERENCE = "overlap it with another micro-batch, or fuse it with the next operation; split the model so that less is exchanged"
_OTHERS = {
    "pytorch": "start it earlier and meanwhile compute what does not need it: async_op=True of all_to_all and send, TorchRec's "
    "TrainPipelineSparseDist",
    "": "start it earlier and meanwhile compute what does not need it",
}
_SMALLER = "; send smaller types"
_UNKNOWN = "how much computation could hide is not known"
_HALF_TYPES = ("f16", "bf16")
_LARGE = 1_000_000  # bytes: a smaller message takes as long as its latency, so its rate says nothing about the link
_SLOW = 5e9  # bytes/s: links between the devices of one machine reach more (PCIe 3 x16: 12 GB/s)
_TRACED = 0.9  # of the collectives' time: if the sizes of this share are known, the bytes of a step are given
_FASTER = 2.0  # times the mean rate: a message that is this much faster is given next to it
_FIND_OUT = (
    "find out why before you send less: `kernelscope ranks` on the recordings of all ranks shows whether one of them comes late; "
    "else it is the transport, which NCCL_DEBUG=INFO prints (peer to peer, shared memory, sockets)"
)
_ARRIVE = (
    "find the rank that comes late: `kernelscope ranks` on the recordings of all ranks names it; give ranks equal work, and look "
    "for input, saving or logging that only some of them do"
)
_MANY, _BRIEF = 100, 50_000  # collectives a step, ns each: a message that takes longer is bound by its size
_SIZES = 10  # different sizes: the layers of a model exchange activations of few sizes, its parameters have many
_IN_BUCKETS = r"(?i)DistributedDataParallel|FullySharded|\b(?:DDP|FSDP)|reducer"
_TRAINS = r"(?i)backward|wgrad|dgrad|adam|sgd"
_ALL_REDUCE = re.compile(r"(?i)all_?reduce")
_BUCKETS = {
    "pytorch": "exchange gradients in buckets: DistributedDataParallel(model), or flatten them into one tensor "
    "(torch._utils._flatten_dense_tensors) and all-reduce that",
    "": "exchange gradients in buckets: flatten many of them into one tensor, and all-reduce that",
}


@dataclass(frozen=True)
class _Known:
    """What is known about messages: bytes a step (0 if not all sizes are known), bytes/s of large messages on average and of the
    fastest one (0 if unknown), and whether most are 16-bit numbers already.
    """

    moved: float
    rate: float
    fastest: float
    halved: bool

    @property
    def slow(self) -> bool:
        """Whether large messages move at a rate that is below that of any link."""
        return 0 < self.rate < _SLOW

    def told(self, subject: Subject) -> list[str]:
        """Say how many bytes are exchanged, and how fast."""
        if not self.rate:
            return [f"They exchange {words.size(self.moved)} {subject.per}."] if self.moved else []
        what = f"They exchange {words.size(self.moved)} {subject.per}, large messages" if self.moved else "Large messages move"
        more = f" (the fastest at {self.fastest / 1e9:.1f} GB/s)" if self.fastest > _FASTER * self.rate else ""
        return [f"{what} at {self.rate / 1e9:.1f} GB/s{more}."]


def exposed(subject: Subject) -> list[Advice]:
    """Devices exchange data while nothing computes."""
    rows, sent = subject.part(COMMUNICATION), _collectives(subject)
    known, waits, number = _known(subject, sent), _waiting(subject), _one_by_one(subject, rows, sent)
    hides = _hideable(subject, rows)
    one = _overlap(subject, rows, known, hides)
    if known.slow:
        one = _slow_path(one, rows, known, hides)
    elif waits:
        one = _late_ranks(one, rows, waits, hides)
    if number:
        one = replace(
            one,
            title=f"{words.count(number)} all-reduces {subject.in_each}, most of them short: one for each parameter",
            saves_ns=max(one.saves_ns, words.time_of(rows) * (1 - 1 / _MANY)),
            estimate="nearly all of it, if many gradients are exchanged at once and behind computation",
            remedy=words.text(subject, _BUCKETS),
        )
    evidence = [*one.evidence, *known.told(subject)]
    return [replace(one, estimate=f"{one.estimate}; it includes waiting for a slower rank", evidence=evidence)]


def _hideable(subject: Subject, rows: pd.DataFrame) -> float:
    """Return how much computation, in ns, could hide communication and does not yet; 0 in totals, which do not show it."""
    hidden = float(rows["duration_ns"].sum()) - words.time_of(rows)
    return max(words.time_of(subject.kernels()) - max(hidden, 0), 0) if subject.timeline else 0.0


def _overlap(subject: Subject, rows: pd.DataFrame, known: _Known, hides: float) -> Advice:
    """Return the advice to overlap communication and to send less, as far as that helps."""
    ns = words.time_of(rows)
    infers = len(subject.trace.operators) > 0 and not (subject.rows["phase"] == "backward").fillna(False).any()
    gradients = not infers and 2 * words.time_of(rows[_of_gradients(rows)]) > ns
    remedy = _INFERENCE if infers else words.text(subject, _REMEDIES if gradients else _OTHERS)
    took, hidden = f"{words.share(subject, ns)} {subject.per}", _hidden(subject.timeline, ns, hides)
    if known.halved:
        saves, estimate = min(float(ns), hides), f"{hidden}; it exchanges 16-bit numbers already"
    else:
        saves, estimate = min(float(ns), max(hides, ns / 2)), f"{hidden}, and half the bytes take half the time"
        remedy += "" if infers else words.text(subject, _HALVED) if gradients else _SMALLER
    title, said = "devices communicate; whether computation hides it is not known", f"Communication takes {took}"
    if subject.timeline:
        title = "communication between devices is not hidden behind computation"
        said = f"Nothing computes during {took} of {words.duration(float(rows['duration_ns'].sum()))} of communication"
    link = "https://docs.pytorch.org/docs/stable/notes/ddp.html" if gradients and subject.framework == "pytorch" else ""
    evidence = [f"{said}: {words.kernels(rows)}."]
    return Advice("communication", title, saves, estimate, evidence, remedy, link, words.ids(rows))


def _hidden(timeline: bool, ns: float, hides: float) -> str:
    return f"computation can hide {words.duration(min(hides, ns))} of it" if timeline else _UNKNOWN


def _slow_path(one: Advice, rows: pd.DataFrame, known: _Known, hides: float) -> Advice:
    """Return the advice on messages that move below the rate of any link. Sizes, and so rates, are known of timelines only."""
    ns = words.time_of(rows)
    at_link = ns * known.rate / _SLOW
    faster = f"at {_SLOW / 1e9:.0f} GB/s, less than links within a machine reach, it takes {words.duration(at_link)}"
    return replace(
        one,
        title=f"communication moves only {known.rate / 1e9:.1f} GB/s: it waits for another rank, or takes a slow path",
        saves_ns=min(float(ns), max(hides, ns - at_link)),
        estimate=f"{faster}; {_hidden(True, ns, hides)}",
        remedy=_FIND_OUT,
        link="",
    )


def _late_ranks(one: Advice, rows: pd.DataFrame, waits: float, hides: float) -> Advice:
    """Return the advice on communication in which mostly no data moves. waits: the share of its time."""
    ns = words.time_of(rows)
    return replace(
        one,
        title="devices wait for other ranks: most of their communication is no transfer",
        saves_ns=max(min(float(ns), hides), ns * waits),
        estimate="all of the waiting, if ranks arrive together",
        evidence=[f"{one.evidence[0]} No data moves in {waits:.0%} of that time."],
        remedy=_ARRIVE,
        link="",
    )


def _collectives(subject: Subject) -> pd.DataFrame:
    """Return the kernels that communicate in the measured steps, with their bytes; null if unknown. None on processors."""
    kernels = subject.trace.kernels
    mine = (kernels["kind"] == "communication").fillna(False).to_numpy(bool) & kernels["start_ns"].notna().to_numpy(bool)
    if subject.on_host or not subject.timeline:
        mine &= False
    kernels = kernels[mine & on_device(kernels, subject.device)]
    kernels = kernels[device_steps.measured(subject.trace, kernels)].reset_index(drop=True)
    if kernels.empty:
        return kernels.assign(bytes=pd.array([], dtype="Int64"))
    operation = kernels["algorithm"].astype("string").fillna(kernels["name"].astype("string").map(short))
    return kernels.assign(bytes=messages(subject.trace, kernels, operation)["bytes"])


def _known(subject: Subject, sent: pd.DataFrame) -> _Known:
    took, size = sent["duration_ns"].to_numpy(float), sent["bytes"].to_numpy(float, na_value=0.0)
    traced = took[size > 0].sum() >= _TRACED * took.sum() > 0
    large = (size >= _LARGE) & (took > 0)
    rates = size[large] / took[large] * 1e9
    some = 2 * took[large].sum() > took.sum()  # the others' rate matters little
    typed = sent["dtype"].notna().to_numpy(bool)
    halved = took[sent["dtype"].isin(_HALF_TYPES).to_numpy(bool)].sum()
    return _Known(
        moved=float(size.sum()) / max(subject.count, 1) if traced else 0.0,
        rate=float(size[large].sum() / took[large].sum() * 1e9) if some else 0.0,
        fastest=float(rates.max()) if some else 0.0,
        halved=bool(2 * halved > took[typed].sum()),
    )


def _waiting(subject: Subject) -> float:
    """Return the share of the communication in which no data moves (Ascend's Notify Wait), if it is most of it; else 0."""
    kernels = subject.trace.kernels
    talks = (kernels["kind"] == "communication").fillna(False).to_numpy(bool)
    share = subject.trace.diagnostics.get(STILL, 0) / max(float(kernels["duration_ns"][talks].sum()), 1.0)
    return min(share, 1.0) if 2 * share > 1 else 0.0


def _one_by_one(subject: Subject, rows: pd.DataFrame, sent: pd.DataFrame) -> float:
    """Return how many all-reduces a step of training has, if it exchanges each parameter's gradient by itself; else 0."""
    rows = rows[_matching(rows, _ALL_REDUCE) & (rows["count"] > 0).to_numpy(bool)]
    number = float(rows["count"].sum())
    brief = float(rows["count"][(rows["duration_ns"] < _BRIEF * rows["count"]).to_numpy(bool)].sum())
    sizes = sent["bytes"][_matching(sent, _ALL_REDUCE)].dropna()
    few = 0 < sizes.nunique() < _SIZES
    if subject.on_host or subject.per != STEPS or number < _MANY or 2 * brief < number or few:
        return 0.0
    kernels = subject.kernels()
    named = kernels["name"].astype("string").fillna("") + " " + kernels["operator"].astype("string").fillna("")
    trains = kernels["phase"].isin(("backward", "optimizer")).any() or named.str.contains(_TRAINS).any()
    tables = (subject.trace.operators, subject.trace.ranges)
    names = pd.concat([pd.Series(table["name"].unique()).astype("string") for table in tables])
    return number if trains and not names.str.contains(_IN_BUCKETS, na=False).any() else 0.0


def _matching(rows: pd.DataFrame, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Return which kernels match by their own names, or by those of the launching operators."""
    names = rows["name"].astype("string").fillna("") + " " + rows["operator"].astype("string").fillna("")
    return names.str.contains(pattern).to_numpy(bool)


def _of_gradients(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which kernels exchange gradients or parameters."""
    return _matching(rows, _GRADIENTS)


RULES: tuple[Rule, ...] = (exposed,)
