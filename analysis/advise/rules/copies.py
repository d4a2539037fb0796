"""Copies that nothing hides: between host and device, and from memory that cannot be copied beside computation."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.device_account import COMPUTE, COPY
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import call_totals
from kernelscope.analysis.device import datasheets

_ACROSS = ("host to device", "device to host", "peer to peer")
_PINNED = {
    "pytorch": "DataLoader(pin_memory=True), tensor.pin_memory(), and .to(device, non_blocking=True)",
    "": "allocate the host's buffers as pinned memory (cudaMallocHost, cudaHostRegister) and copy with cudaMemcpyAsync",
}
_BESIDE = {
    "pytorch": "copy the next batch on a stream of its own while this one computes: .to(device, non_blocking=True) from pinned "
    "memory; send uint8 and convert on the device",
    "": "copy the next batch on another stream while this one computes; send smaller types and convert on the device",
}
_FEWER = {
    "pytorch": "send fewer bytes: uint8 or half precision, converted on the device; keep there what each step sends again",
    "jax": "offload less to the host's memory: keep on the device what each step brings back; send smaller types",
    "": "send fewer bytes: smaller types, converted on the device; keep there what each step sends again",
}
_LINK = {
    "jax": "https://docs.jax.dev/en/latest/notebooks/host-offloading.html",
    "": "https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/",
}
_REACHED = 0.9  # of the data sheet's host link: pinned copies reach 57.2 of 63.0 GB/s (H100, PCIe 5) and 27.7 of 31.5 (PCIe 4)
_FASTER = 2.3  # pinned over pageable where bytes or link are not known: 57.2 over 25.2 GB/s, one program on one H100
_GATHER = "copy many values at once: gather them on the side where they are, or keep them there"
_MANY, _SHORT_NS = 100, 3_000  # so many copies that are as short take their time by their number
_LARGE = 1_000_000  # bytes a copy: its memory's kind decides how fast it is
_START = 2_000  # ns: that a copy takes however small it is
_SEEN = 1_000  # ns: shorter times are printed as nothing
_LITTLE = 0.25  # of the copies: where computation can hide no more, fewer bytes save more
_HALF = 0.5  # of the bytes, in types of half the size


def exposed(subject: Subject) -> list[Advice]:
    """The device copies and computes nothing meanwhile."""
    if subject.on_host:
        return []
    rows = subject.part(COPY)
    rows = rows[rows["kind"].isin(_ACROSS).to_numpy(bool)]
    ns = words.time_of(rows)
    pageable = rows[rows["name"].str.contains("ageable").fillna(False).to_numpy(bool)]
    room = _room(subject)
    beside = f"copies can be hidden behind {words.duration(room)} of computation at most, beside which nothing is copied yet"
    beside = beside if room >= _SEEN else "no computation is left to hide copies behind"
    if words.time_of(pageable) > ns / 2:
        title, remedy = "copies from or to pageable memory hold up the device", words.text(subject, _PINNED)
        pinned, said = _pinning(subject, pageable)
        saves = pinned + min(ns - pinned, room)
        estimate = f"{words.duration(pinned)} by {said}; {beside}"
    elif room < _LITTLE * ns:
        title, remedy = "copies between host and device take longer than computation can hide", words.text(subject, _FEWER)
        saves, estimate = _HALF * ns, f"half of them, where types of half the size are sent; {beside}"
    else:
        title, remedy = "copies between host and device are not hidden behind computation", words.text(subject, _BESIDE)
        saves, estimate = min(ns, room), beside
    small = _small(rows)
    if small:
        title, remedy = "many small copies between host and device", _GATHER
        saves, estimate = ns * (1 - 1 / _MANY), "nearly all of it, where many values are copied at once"
    elif not subject.timeline and _is_pageable(subject, rows):
        title, remedy = "copies between host and device, from memory that nothing pinned", words.text(subject, _PINNED)
        saves, said = _pinning(subject, rows)
        estimate = f"by {said}; no call that pins memory is among those of the capture"
    elif not subject.timeline:
        title = "copies between host and device, of which totals do not tell what hides them"
    which = "Copies that nothing hides" if subject.timeline else "Copies"
    evidence = [*small, f"{which} take {words.share(subject, ns)} {subject.per}: {_listed(rows)}.", *_rate(rows)]
    return [Advice("copies", title, saves, estimate, evidence, remedy, words.text(subject, _LINK), words.ids(rows))]


def _small(rows: pd.DataFrame) -> list[str]:
    """Return a sentence where it is the copies' number that takes the time; nothing where they are few or long."""
    count, ns = float(rows["count"].sum()), float(rows["duration_ns"].sum())
    if count < _MANY or ns / count > _SHORT_NS:
        return []
    return [f"{count:,.0f} copies take {words.duration(ns / count)} each on average, about what the smallest one takes."]


def _is_pageable(subject: Subject, rows: pd.DataFrame) -> bool:
    """Return whether large copies were made, and among the calls that totals tell none pins memory."""
    calls, count = call_totals.sums(subject.trace), float(rows["count"].sum())
    moved = float(rows["bytes"].sum(skipna=True)) if "bytes" in rows else 0.0
    return bool(len(calls)) and not len(call_totals.named(calls, call_totals.PINNED)) and moved > _LARGE * max(count, 1)


def _room(subject: Subject) -> float:
    """Return how much more computation copies can run beside, ns per step: all but that which hides copies already."""
    computing = words.time_of(subject.part(COMPUTE))
    copies = subject.part(COPY)
    hidden = float(copies["duration_ns"].sum()) - words.time_of(copies)
    return max(computing - max(hidden, 0.0), 0.0)


def _pinning(subject: Subject, rows: pd.DataFrame) -> tuple[float, str]:
    """Return what pinned memory saves of these copies, ns per step, and by which ratio of bandwidths."""
    took = rows["duration_ns"].to_numpy(float)
    moved = rows["bytes"].fillna(0).to_numpy(float) if "bytes" in rows else np.zeros(len(rows))
    sheet = datasheets.lookup(subject.hardware)
    link = sheet.host_bandwidth if sheet else None
    if link is None or not (moved > 0).all() or not took.sum():
        ratio = np.full(len(rows), 1 / _FASTER)
        said = f"pinned memory, {_FASTER} times as fast as pageable (measured on an H100: 57.2 and 25.2 GB/s)"
    else:
        lasts = moved / (_REACHED * link) * 1e9 + rows["count"].to_numpy(float) * _START
        ratio = np.minimum(lasts / np.maximum(took, 1), 1)
        said = (
            f"pinned memory, which reaches {_REACHED:.0%} of the {link / 1e9:.1f} GB/s of {sheet.host_link if sheet else ''} "
            f"(data sheet; a slower slot gives less), where these reach {moved.sum() / took.sum():.1f} GB/s"
        )
    return float((rows["time_ns"].to_numpy(float) * (1 - ratio)).sum()), said


def _rate(rows: pd.DataFrame) -> list[str]:
    moved = float(rows["bytes"].sum(skipna=True)) if "bytes" in rows else 0.0
    took = float(rows["duration_ns"].sum())  # zero where a tool rounds to whole microseconds
    return [f"They move {words.size(moved)} at {moved / took:.1f} GB/s."] if moved and took else []


def _listed(rows: pd.DataFrame) -> str:
    memory = (" (" + rows["name"].astype("string") + ")").fillna("")
    return words.largest(rows.assign(what=rows["kind"].astype("string") + memory), "what")


RULES: tuple[Rule, ...] = (exposed,)
