"""Copies that nothing hides: between host and device, and from memory that cannot be copied during computation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.device_account import ALL, COMPUTE, COPY
from kernelscope.analysis.advise import links, words
from kernelscope.analysis.advise.model import LEAST_ON_DEVICE, Advice, Rule
from kernelscope.analysis.advise.subject import STEPS, Subject
from kernelscope.analysis.attribution import call_totals

_ACROSS = ("host to device", "device to host", "peer to peer")
_PINNED = {
    "pytorch": "DataLoader(pin_memory=True), tensor.pin_memory(), and .to(device, non_blocking=True)",
    "": "allocate host buffers in pinned memory (cudaMallocHost, cudaHostRegister) and copy with cudaMemcpyAsync",
}
_BESIDE = {
    "pytorch": "copy the next batch on a separate stream while this one computes: .to(device, non_blocking=True) from pinned "
    "memory; send uint8 and convert on the device",
    "": "copy the next input on another stream while this one is processed; send smaller types and convert on the device",
}
_BACK = {
    "pytorch": "fetch results on a separate stream while the next batch computes: .to('cpu', non_blocking=True) into pinned "
    "memory; fetch fewer of them, or smaller types",
    "": "copy results on another stream while the next ones are computed; copy fewer of them, or smaller types",
}
_FEWER = {
    "pytorch": "send fewer bytes: uint8 or half precision, converted on the device; keep data there that each step sends again",
    "jax": "offload less to host memory: keep data on the device that each step brings back; send smaller types",
    "": "send fewer bytes: smaller types, converted on the device; keep data there that each step sends again",
}
_RARELY = (
    "keep results on the device until many of them, or their sum, are fetched at once; fetch smaller types, converted on the "
    "device"
)
_FETCH_LESS = {
    "pytorch": "fetch fewer results: each .item(), .cpu(), .numpy() and print of a tensor copies it to the host; keep results on "
    "the device until many of them, or their sum, are fetched at once; fetch smaller types",
    "jax": _FEWER["jax"],
    "tensorflow": "fetch fewer results: each .numpy() and print of a tensor copies it to the host; " + _RARELY,
    "mxnet": "fetch fewer results: each .asnumpy(), .asscalar() and print of an array copies it to the host; " + _RARELY,
    "": "fetch fewer results; " + _RARELY,
}
_FIRST_USE = (
    "use the device once before the timed part, as MXNet's first copies wait until the device is ready; see what is left then: "
)
_FEW_COPIES, _FIRST_NS = 8, 10_000_000  # MXNet's first copies: so few, each so long, if bytes are unknown
_EARLIER = "; they already run on a separate stream, from pinned memory: start them earlier (prefetch more batches)"
_DECODE = ", or send encoded data, and decode and convert it on the device"
_WEIGHTS = (
    "keep these tensors on the device, as far as its memory allows: tensors this large, with the same sizes in each step, are "
    "mostly weights that are offloaded to the host (cpu_offload, device_map='auto'); weights with fewer bits need less memory"
)
_WEIGHT, _SEVERAL = 50_000_000, 8  # bytes, and copies a step: batches are rarely this large, and there are fewer of them
_LINK = {
    "jax": "https://docs.jax.dev/en/latest/notebooks/host-offloading.html",
    "": "https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/",
}
_GAINS = 0.1  # of the copies' time: pinned memory that saves less is no advice
_FASTER = 2.3  # pinned over pageable if bytes or link are unknown: 57.2 over 25.2 GB/s, one program on one H100
_GATHER = "copy many values at once: gather them where they are, or keep them there"
_MANY, _SHORT_NS = 100, 3_000  # with so many copies so short, their number is what takes the time
_LONG = 300_000  # ns a copy: slow links move half a megabyte in that time, usual ones several
_MAKES = r"(?i)^(?:cuda|hip|cu)Memcpy"  # calls that copy
_LARGE = 1_000_000  # bytes a copy: from this size on, pinned or pageable memory decides its rate
_START = 2_000  # ns that a copy takes at least
_SEEN = 1_000  # ns: less time counts as none in the text
_LITTLE = 0.25  # of the copies: if computation can hide less, sending fewer bytes saves more
_BOTH = 0.25  # of the copies: if each direction has as much, they can hide one another
_MOSTLY_BACK = 0.75  # of the copies: with more of them from the device, what is sent to it matters little
_HALF = 0.5  # of the bytes, in types of half the size
_SETS, _NOTED = 0.1, 0.05  # of the time of copies and sets, and of the step: memory sets that take more are noted
_FEW = 0.01  # of the copies of a direction: with so few large ones, they are no input of each step
_MOSTLY = 0.5  # of their time
_ONCE = {
    "host to device": "as when weights are loaded at the start: they do not look like the input of each step",
    "device to host": "as when results are fetched at the end: they do not look like what each step fetches",
}


class _Proposal(NamedTuple):
    """What to do about copies, what it saves (ns per step), how that was worked out, and what shows it."""

    title: str
    remedy: str
    saves: float
    estimate: str
    evidence: tuple[str, ...] = ()


def exposed(subject: Subject) -> list[Advice]:
    """The device copies while nothing computes."""
    if subject.on_host:
        return []
    rows = subject.part(COPY)
    rows = rows[(rows["kind"].isin(_across(subject)) & ~rows["kind"].isin(_loading(subject)["operation"])).to_numpy(bool)]
    ns = words.time_of(rows)
    pageable = rows[rows["name"].str.contains("ageable").fillna(False).to_numpy(bool)]
    one = _of_memory(subject, rows, pageable) or _of_room(subject, rows, pageable)
    one = _of_number(rows) or _of_totals(subject, rows, pageable, one)
    if _is_first_use(subject, rows):
        estimate = "all of it at most, as totals do not show how long these copies take later"
        one = _Proposal("copies to the device include its first use", _FIRST_USE + one.remedy, ns, estimate, one.evidence)
    one = _of_weights(subject, rows, one)
    if not subject.timeline and not _small(rows) and one.saves < _START * float(rows["count"].sum()):
        return []  # a stream of its own, or other memory, costs the host more
    which = "Copies that nothing hides" if subject.timeline else "Copies"
    evidence = [*one.evidence, f"{which} take {words.share(subject, ns)} {subject.per}: {_listed(rows)}.", *_rate(rows)]
    link = words.text(subject, _LINK)
    return [Advice("copies", one.title, one.saves, one.estimate, evidence, one.remedy, link, words.ids(rows))]


def _of_memory(subject: Subject, rows: pd.DataFrame, pageable: pd.DataFrame) -> _Proposal | None:
    """Return that memory is to be pinned, if most copies are from or to pageable memory and that saves enough; else None."""
    ns, room = words.time_of(rows), _room(subject)
    pinned, said = _pinning(subject, pageable)
    if words.time_of(pageable) <= ns / 2 or (pinned < _GAINS * ns and room < _LITTLE * ns):
        return None
    remedy = words.text(subject, _PINNED)
    remedy = remedy if subject.timeline or room >= _LITTLE * ns else f"{remedy}; {_fewer(subject, rows)[0]}"
    hidden = min(ns - pinned, room)
    estimate = f"{words.duration(pinned)} by {said}; {_more(hidden, room)}"
    return _Proposal("copies from or to pageable memory hold up the device", remedy, pinned + hidden, estimate)


def _of_room(subject: Subject, rows: pd.DataFrame, pageable: pd.DataFrame) -> _Proposal:
    """Return that copies are to be hidden behind computation, or to be fewer, by how much computation there is."""
    ns, room = words.time_of(rows), _room(subject)
    fewer, halved = _fewer(subject, rows)
    beside = f"copies can hide behind {words.duration(room)} of computation at most, during which nothing is copied yet"
    beside = beside if room >= _SEEN else "no computation is left to hide copies behind"
    if room < _LITTLE * ns:
        title = "copies between host and device take longer than computation can hide"
        return _Proposal(title, fewer + _both_ways(subject, rows), _HALF * ns, f"{halved}; {beside}")
    title = "copies between host and device are not hidden behind computation"
    if words.time_of(pageable) <= ns / 2 and _beside_already(subject):
        decode = "" if _is_back(rows, _MOSTLY_BACK) else _DECODE
        return _Proposal(title, fewer + decode + _EARLIER, _HALF * ns, f"{halved}; {beside}")
    return _Proposal(title, words.text(subject, _BACK if _is_back(rows) else _BESIDE), min(ns, room), beside)


def _fewer(subject: Subject, rows: pd.DataFrame) -> tuple[str, str]:
    """Return how to copy fewer bytes, and what half of them are."""
    fetches = _is_back(rows, _MOSTLY_BACK)
    halved = "half of them, if " + ("half as many bytes are fetched" if fetches else "types of half the size are sent")
    return words.text(subject, _FETCH_LESS if fetches else _FEWER), halved


def _of_number(rows: pd.DataFrame) -> _Proposal | None:
    """Return that many values are to be copied at once, if copies are many and small; else None."""
    small = _small(rows)
    if not small:
        return None
    saves, estimate = words.time_of(rows) * (1 - 1 / _MANY), "nearly all of it, if many values are copied at once"
    return _Proposal("many small copies between host and device", _GATHER, saves, estimate, tuple(small))


def _of_totals(subject: Subject, rows: pd.DataFrame, pageable: pd.DataFrame, one: _Proposal) -> _Proposal:
    """Return what totals tell of copies: they show whether memory is pinned, and not whether computation hides copies."""
    if subject.timeline:
        return one
    if _is_pageable(subject, rows):
        saves, said = _pinning(subject, rows)
        remedy = f"{words.text(subject, _PINNED)}; {_fewer(subject, rows)[0]}"
        estimate = f"by {said}; the capture has no call that pins memory"
        return _Proposal("copies between host and device use memory that is not pinned", remedy, saves, estimate)
    what = "from or to pageable memory" if words.time_of(pageable) > words.time_of(rows) / 2 else "between host and device"
    return one._replace(title=f"copies {what} take time; totals do not show whether computation hides it")


def _of_weights(subject: Subject, rows: pd.DataFrame, one: _Proposal) -> _Proposal:
    """Return that weights are to stay on the device, if they are most of the copies' time; else the other proposal."""
    weights, again = _weights(subject)
    took = float(rows["duration_ns"].sum())
    if weights * 2 <= took:
        return one
    saves, title = words.time_of(rows) * min(weights / took, 1.0), "large tensors are copied to the device again in each step"
    return _Proposal(title, _WEIGHTS, saves, "all of these copies, if they stay there", (*one.evidence, *again))


def _more(hidden: float, room: float) -> str:
    """Say how much hiding copies behind computation saves beside pinned memory; room: of computation without copies."""
    if room < _SEEN:
        return "no computation is left to hide copies behind"
    free = f"the {words.duration(room)} of computation during which nothing is copied yet"
    return f"up to {words.duration(hidden)} more if what is left of the copies hides behind {free}"


def _is_first_use(subject: Subject, rows: pd.DataFrame) -> bool:
    """Return whether these are MXNet's few copies of a short recording, each so long that it rather waits for the device."""
    count, ns = float(rows["count"].sum()), float(rows["duration_ns"].sum())
    moved = float(rows["bytes"].sum(skipna=True)) if "bytes" in rows else 0.0
    of_mxnet = subject.framework == "mxnet" and not subject.timeline and not moved
    return of_mxnet and 0 < count <= _FEW_COPIES and ns >= _FIRST_NS * count


def _across(subject: Subject) -> tuple[str, ...]:
    """Return the kinds of copies that are not within a device; a table of operators does not show their direction."""
    by_operators = subject.trace.info.get("counted") == "operators"
    return (*_ACROSS, "other") if by_operators else _ACROSS


def _both_ways(subject: Subject, rows: pd.DataFrame) -> str:
    """Return that copies can run in both directions at the same time, if totals have much of both on a device of NVIDIA."""
    ways = [words.time_of(rows[(rows["kind"] == one).fillna(False).to_numpy(bool)]) for one in _ACROSS[:2]]
    if subject.timeline or min(ways) < _BOTH * words.time_of(rows) or not subject.device.startswith(("cuda", ALL)):
        return ""
    return "; copy in both directions at once, on two streams and from pinned memory, unless the program does, which totals hide"


def _is_back(rows: pd.DataFrame, share: float = 0.5) -> bool:
    """Return whether more than this share of the copies' time is from the device to the host."""
    back = (rows["kind"] == "device to host").fillna(False).to_numpy(bool)
    return words.time_of(rows[back]) > share * words.time_of(rows)


def _loading(subject: Subject) -> pd.DataFrame:
    """Return the copies of totals whose time is in a few large ones, as when weights are loaded: a row for each direction.

    The effective number of copies is (sum of times)² / (sum of their squares): n for n alike, fewer if few take most of it. If a
    tool prints no standard deviation, the longest one must take most of the time.
    """
    copies = subject.trace.copies
    count, ns = copies["count"].to_numpy(float), copies["duration_ns"].to_numpy(float)
    deviation, longest = (copies[name].astype("Float64").to_numpy(float, na_value=np.nan) for name in ("std_ns", "max_ns"))
    mean = ns / np.maximum(count, 1)
    effective = count / (1 + (deviation / np.maximum(mean, 1)) ** 2)
    few = np.where(np.isnan(deviation), longest > _MOSTLY * ns, effective < _FEW * count)
    total = (count >= _MANY) & copies["operation"].isin(_ACROSS).to_numpy(bool) & copies["start_ns"].isna().to_numpy(bool)
    return copies[few & total & (not subject.timeline)]


def loading(subject: Subject) -> list[str]:
    """Note that a few large copies take most of the time of a direction in totals."""
    return [
        f"{int(one['count']):,} copies {one['operation']} take {words.duration(float(one['duration_ns']))}, mostly in a few "
        f"large ones{_longest(one['max_ns'])}, {_ONCE.get(str(one['operation']), 'as what runs once does')}"
        for one in _loading(subject).to_dict("records")
        if one["duration_ns"] > LEAST_ON_DEVICE * subject.step_ns
    ]


def sets(subject: Subject) -> list[str]:
    """Note that memory sets, which count as copying, take a noticeable part of it."""
    rows = subject.part(COPY)
    ns = words.time_of(rows[(rows["kind"] == "set").fillna(False).to_numpy(bool)])
    if subject.on_host or ns <= max(_SETS * words.time_of(rows), _NOTED * subject.step_ns):
        return []
    return [f"copying includes memory sets: {words.share(subject, ns)}"]


def _longest(ns: Any) -> str:
    return "" if pd.isna(ns) else f" (the longest takes {words.duration(float(ns))})"


def _beside_already(subject: Subject) -> bool:
    """Return whether most copies to the device come from pinned memory, on streams on which no kernel runs."""
    copies = subject.timed_copies("host to device")
    kernels = subject.trace.kernels
    kernels = kernels[(kernels["device"] == subject.device).fillna(False).to_numpy(bool)]
    apart = copies["thread"].notna() & ~copies["thread"].isin(kernels["thread"].dropna().unique())
    pinned = copies["memory"].astype("string").str.contains("pinned").fillna(False)
    took = copies["duration_ns"].to_numpy(float)
    return bool(2 * took[(apart & pinned).to_numpy(bool)].sum() > took.sum())


def _weights(subject: Subject) -> tuple[float, list[str]]:
    """Return how long large tensors are copied to the device, in ns per step, and say which, if each step copies several of the
    same sizes.
    """
    copies = subject.timed_copies("host to device")
    large = copies[(copies["bytes"] >= _WEIGHT).fillna(False).to_numpy(bool) & copies["step"].notna().to_numpy(bool)]
    counts = large.groupby(["step", "bytes"]).size().unstack(fill_value=0)
    if subject.per != STEPS or subject.count < 2 or len(counts) < subject.count:
        return 0.0, []
    in_each = counts.min()  # of each size
    if in_each.sum() < _SEVERAL:
        return 0.0, []
    mine = large[large["bytes"].isin(in_each.index[(in_each > 0).to_numpy(bool)]).to_numpy(bool)]
    least, most, sent = (float(value) for value in (mine["bytes"].min(), mine["bytes"].max(), mine["bytes"].sum()))
    range_ = words.size(least) if least == most else f"{words.size(least)} to {words.size(most)}"
    said = f"Each step copies {words.count(len(mine) / subject.count)} tensors of {range_}"
    took = float(mine["duration_ns"].sum()) / subject.count
    return took, [f"{said}, {words.size(sent / subject.count)} in all."]


def _small(rows: pd.DataFrame) -> list[str]:
    """Say so if the number of copies is what takes the time; nothing if they are few or long."""
    count, ns = float(rows["count"].sum()), float(rows["duration_ns"].sum())
    if count < _MANY or ns / count > _SHORT_NS:
        return []
    return [f"{count:,.0f} copies take {words.duration(ns / count)} each on average, about as long as the smallest copy."]


def _is_pageable(subject: Subject, rows: pd.DataFrame) -> bool:
    """Return whether large copies were made and no call in the totals pins memory.

    If bytes are unknown, copies that take long are large; the calls that make them must be listed, so that others are, too.
    """
    calls, count = call_totals.sums(subject.trace), max(float(rows["count"].sum()), 1)
    if not len(calls) or len(call_totals.named(calls, call_totals.PINNED)):
        return False
    if not len(call_totals.named(calls, f"{call_totals.LAUNCHES}|{call_totals.ALLOCATIONS}")):
        return False  # the list of calls was cut before what any program does
    moved = float(rows["bytes"].sum(skipna=True)) if "bytes" in rows else 0.0
    long = not moved and float(rows["duration_ns"].sum()) > _LONG * count and len(call_totals.named(calls, _MAKES))
    return moved > _LARGE * count or bool(long)


def _room(subject: Subject) -> float:
    """Return how much more computation copies can overlap with, in ns per step: all that does not hide copies already."""
    computing = words.time_of(subject.part(COMPUTE))
    copies = subject.part(COPY)
    hidden = float(copies["duration_ns"].sum()) - words.time_of(copies)
    return max(computing - max(hidden, 0.0), 0.0)


def _pinning(subject: Subject, rows: pd.DataFrame) -> tuple[float, str]:
    """Return what pinned memory saves of these copies, in ns per step, and by which ratio of bandwidths."""
    took = rows["duration_ns"].to_numpy(float)
    moved = rows["bytes"].fillna(0).to_numpy(float) if "bytes" in rows else np.zeros(len(rows))
    if not (moved > 0).all() or not took.sum():
        ratio = np.full(len(rows), 1 / _FASTER)
        said = f"pinned memory, {_FASTER} times as fast as pageable memory (measured on an H100: 57.2 and 25.2 GB/s)"
    else:
        link = links.limit(subject.hardware, float((moved / np.maximum(took, 1)).max()) * 1e9)
        lasts = moved / link.rate * 1e9 + rows["count"].to_numpy(float) * _START
        least = 0 if link.certain else 1 / _FASTER  # it was not seen to be faster than that
        ratio = np.clip(lasts / np.maximum(took, 1), least, 1)
        slow = (
            "" if link.certain or (lasts > least * took).all() else f" ({_FASTER} times as fast at most, as measured on an H100)"
        )
        said = f"pinned memory, which reaches {link.of}, while these copies reach {moved.sum() / took.sum():.1f} GB/s{slow}"
    return float((rows["time_ns"].to_numpy(float) * (1 - ratio)).sum()), said


def _rate(rows: pd.DataFrame) -> list[str]:
    moved = float(rows["bytes"].sum(skipna=True)) if "bytes" in rows else 0.0
    took = float(rows["duration_ns"].sum())  # zero if a tool rounds to whole microseconds
    return [f"They move {words.size(moved)} at {moved / took:.1f} GB/s."] if moved and took else []


def _listed(rows: pd.DataFrame) -> str:
    memory = (" (" + rows["name"].astype("string") + ")").fillna("")
    return words.largest(rows.assign(what=rows["kind"].astype("string") + memory), "what")


RULES: tuple[Rule, ...] = (exposed,)
