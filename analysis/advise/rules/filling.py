"""Filling the device: kernels with so few blocks that multiprocessors idle."""

from __future__ import annotations

import re

import numpy as np

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.device import datasheets

_LAUNCH = 10_000  # ns: shorter kernels are bound by their launch, and larger ones would take as long
_LARGER = "larger batches, or several such kernels at once (streams, batched products)"
_PRODUCTS = (
    "larger batches for products of the forward pass and data gradients (the blocks of weight gradients depend on the size of "
    "the weights, whatever the batch); several products at once (streams, batched products)"
)


def too_few_blocks(subject: Subject) -> list[Advice]:
    """Kernels have fewer blocks than the device has multiprocessors."""
    processors = multiprocessors(subject)
    if not processors:
        return []
    rows = subject.kernels()
    rows = rows[(rows["grid"].notna() & (rows["duration_ns"] / rows["count"].clip(lower=1e-9) > _LAUNCH)).to_numpy(bool)]
    blocks = rows["grid"].map(_blocks).to_numpy(float)
    few = blocks < processors
    rows, blocks = rows[few], blocks[few]
    time_ns = rows["time_ns"].to_numpy(float)
    products = rows[(rows["kind"] == "gemm").fillna(False).to_numpy(bool)]
    saves = float((time_ns * (1 - blocks / processors)).sum())
    of_amd = subject.device.startswith("rocm")
    called = "compute units" if of_amd else "multiprocessors"
    return [
        Advice(
            "small kernels",
            f"kernels have fewer blocks than the device has {called} ({processors})",
            saves,
            "the share of the device that these kernels leave idle",
            [f"Such kernels take {words.share(subject, float(time_ns.sum()))} {subject.per}: {words.kernels(rows)}."],
            _PRODUCTS if 2 * words.time_of(products) > time_ns.sum() else _LARGER,
            "" if of_amd else "https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/",
            words.ids(rows),
        )
    ]


def multiprocessors(subject: Subject) -> int | None:
    """Return how many multiprocessors or compute units the subject's device has; None if unknown."""
    for device in subject.trace.info.get("devices") or []:
        if device.get("device") == subject.device and device.get("multiprocessors"):
            return int(device["multiprocessors"])
    sheet = datasheets.lookup(subject.hardware)
    return sheet.multiprocessors if sheet else None


def _blocks(grid: object) -> float:
    sizes = [int(text) for text in re.findall(r"\d+", str(grid))]
    return float(np.prod(sizes)) if sizes else float("inf")


RULES: tuple[Rule, ...] = (too_few_blocks,)
