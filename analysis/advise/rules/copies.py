"""Copies that nothing hides: between host and device, and from memory that cannot be copied beside computation."""

from __future__ import annotations

import pandas as pd

from kernelscope.analysis.accounting.device_account import COMPUTE, COPY, GRAPH
from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

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


def exposed(subject: Subject) -> list[Advice]:
    """The device copies and computes nothing meanwhile."""
    if subject.on_host:
        return []
    rows = subject.part(COPY)
    rows = rows[rows["kind"].isin(_ACROSS).to_numpy(bool)]
    ns = words.time_of(rows)
    pageable = rows["name"].str.contains("ageable").fillna(False).to_numpy(bool)
    unpinned = words.time_of(rows[pageable])
    evidence = [f"Copies that nothing hides take {words.share(subject, ns)} {subject.per}: {_listed(rows)}."]
    moved = float(rows["bytes"].sum(skipna=True)) if "bytes" in rows else 0.0
    if moved and ns:
        evidence.append(f"They move {moved / 1e6:,.1f} MB at {moved / float(rows['duration_ns'].sum()):.1f} GB/s.")
    beside = words.time_of(subject.part(COMPUTE)) + words.time_of(subject.part(GRAPH))
    if unpinned > ns / 2:
        title, remedy = "copies between host and pageable memory hold up the device", words.text(subject, _PINNED)
        quicker = unpinned / 2
        saves = quicker + min(ns - quicker, beside)
        estimate = (
            f"pinned memory is copied at least twice as fast (see the link), which saves {words.ms(quicker)}; of what is left "
            f"computation can hide as much as it takes itself, {words.ms(min(ns - quicker, beside))}"
        )
    else:
        title, remedy = "copies between host and device are not hidden behind computation", words.text(subject, _BESIDE)
        saves = min(ns, beside)
        estimate = f"computation takes {words.ms(beside)} {subject.per} and can hide no more than that"
    link = "https://developer.nvidia.com/blog/how-optimize-data-transfers-cuda-cc/"
    return [Advice("copies", title, saves, estimate, evidence, remedy, link, words.ids(rows))]


def _listed(rows: pd.DataFrame) -> str:
    memory = (" (" + rows["name"].astype("string") + ")").fillna("")
    return words.largest(rows.assign(what=rows["kind"].astype("string") + memory), "what")


RULES: tuple[Rule, ...] = (exposed,)
