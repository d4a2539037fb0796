"""Products and convolutions far below what the device allows at their operations and bytes, by its data sheet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules import bfloat16
from kernelscope.analysis.advise.rules.filling import multiprocessors
from kernelscope.analysis.advise.rules.low_occupancy import LARGE, LAUNCH
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.device import datasheets
from kernelscope.analysis.device.datasheets import Datasheet
from kernelscope.analysis.kernels import work
from kernelscope.analysis.kernels.lookup import look
from kernelscope.analysis.trace import CONVOLUTIONS

TOPIC = "roofline"
_FAR = 0.2  # of what the device allows
_HALF = 0.5  # of what it allows, which large problems reach
_ALONE = 0.7  # of its duration: a kernel that has less of the step runs beside others, which slow it down
_KNOWN = 0.9  # of the kernel's time
_NARROW = 64  # rows, columns or inner dimension: a tile of a product is at least as large
_MOST = 3  # kernels that are named
_KEYS = ["name", "dtype", "problem"]
_MULTIPLE = {"f16": 8, "bf16": 8, "tf32": 4}
_CONVOLVES = {
    "pytorch": "torch.backends.cudnn.benchmark = True lets cuDNN try other algorithms; numbers of channels that are multiples of "
    "8, fewer groups, and memory_format=torch.channels_last give it more of them",
    "": "let the library try other algorithms (autotuning); more channels in multiples of 8, and fewer groups, fill its tiles",
}
_MULTIPLIES = {
    "": "join several such products into one (a larger batch, stacked weights); pad small or odd sizes to multiples of 64",
}


@dataclass(frozen=True)
class _Rate:
    """What a problem reaches, and what the device allows, in operations/s.

    bound: by its arithmetic or its memory. sizes: m, n and k of the longest product; empty if unknown.
    """

    reached: float
    allowed: float
    bound: str
    sizes: tuple[int, ...] = ()

    @property
    def share(self) -> float:
        """What it reaches of what is allowed."""
        return self.reached / self.allowed


def far_below(subject: Subject) -> list[Advice]:
    """Products and convolutions that reach little of the lower of both bounds: peak arithmetic, and memory at their intensity."""
    sheet = None if subject.on_host else datasheets.lookup(subject.hardware, multiprocessors(subject))
    rows = subject.kernels(("gemm", *CONVOLUTIONS))
    rows = rows[~rows.index.isin(bfloat16.emulated(subject).index)]
    alone = (rows["time_ns"] > _ALONE * rows["duration_ns"]) & (rows["duration_ns"] > LAUNCH * rows["count"])
    rows = rows[alone.to_numpy(bool)]
    if sheet is None or not sheet.bandwidth or len(subject.trace.metrics) or words.time_of(rows) < LARGE * subject.step_ns:
        return []
    rates = _rates(subject, sheet)
    found = [rates.get(key) for key in zip(*(rows[name].astype("string").fillna("") for name in _KEYS), strict=True)]
    far = np.array([rate is not None and rate.share < _FAR for rate in found], dtype=bool)
    shares = np.array([rate.share if rate else np.nan for rate in found], dtype=float)
    rows = rows.assign(share=shares)[far]
    sums = rows.groupby(rows["name"].astype("string"))["time_ns"].sum()
    large = sums[sums >= LARGE * subject.step_ns].nlargest(_MOST)
    return [_advice(subject, sheet, rows[(rows["name"] == name).to_numpy(bool)], rates) for name in large.index]


def _rates(subject: Subject, sheet: Datasheet) -> dict[tuple[str, ...], _Rate]:
    """Return what the kernels of each name, type and problem reach, if most of their operations and bytes are known."""
    trace = subject.trace
    kernels = trace.kernels
    chosen = kernels["kind"].isin(["gemm", *CONVOLUTIONS]) & (kernels["device"] == subject.device)
    keep = chosen.fillna(False).to_numpy(bool) & device_steps.measured(trace, kernels)
    works = work.of_kernels(trace).loc[keep]
    counted = works[["flops", "bytes"]].astype("Float64")
    table = kernels.loc[keep, ["duration_ns"]].assign(
        **{name: kernels.loc[keep, name].astype("string").fillna("") for name in _KEYS}
    )
    known = counted.notna().all(axis=1).to_numpy(bool)
    table = table.assign(known_ns=table["duration_ns"].where(known, 0), flops=counted["flops"].where(known, 0.0))
    table = table.assign(bytes=counted["bytes"].where(known, 0.0))
    longest = table.sort_values("duration_ns", ascending=False, kind="stable").drop_duplicates(_KEYS)
    sizes = {
        tuple(map(str, key)): tuple(int(one) for one in works.loc[index, ["m", "n", "k"]].dropna())
        for index, *key in longest[_KEYS].itertuples(name=None)
    }
    sums = table.groupby(_KEYS)[["duration_ns", "known_ns", "flops", "bytes"]].sum()
    kept = sums[(sums["known_ns"] > _KNOWN * sums["duration_ns"]).to_numpy(bool)].reset_index()
    result: dict[tuple[str, ...], _Rate] = {}
    for row in kept.to_dict("records"):
        name, dtype, problem = (str(row[key]) for key in _KEYS)
        rate = _rate(sheet, name, dtype, float(row["flops"]), float(row["bytes"]), float(row["known_ns"]))
        if rate is not None:
            result[name, dtype, problem] = replace(rate, sizes=sizes.get((name, dtype, problem), ()))
    return result


def _rate(sheet: Datasheet, name: str, dtype: str, flops: float, moved: float, ns: float) -> _Rate | None:
    """Return the rate of a problem; None if the peak of the units that its kernel uses is not known."""
    uses = look(name).tensor_core
    peak = sheet.flops(dtype, False if dtype == "f32" and not uses else uses)
    if not peak or not sheet.bandwidth or flops <= 0 or moved <= 0 or ns <= 0:
        return None
    of_memory = sheet.bandwidth * flops / moved
    return _Rate(flops / ns * 1e9, min(peak, of_memory), "memory" if of_memory < peak else "arithmetic")


def _advice(subject: Subject, sheet: Datasheet, rows: pd.DataFrame, rates: dict[tuple[str, ...], _Rate]) -> Advice:
    """Return the advice on one kernel, whose rows these are."""
    ns = words.time_of(rows)
    first = rows.nlargest(1, "time_ns").iloc[0]
    rate = rates[tuple("" if pd.isna(first[name]) else str(first[name]) for name in _KEYS)]
    share = float((rows["time_ns"] * rows["share"]).sum()) / ns
    convolves = str(first["kind"]) in CONVOLUTIONS
    problem = "" if pd.isna(first["problem"]) else f" ({first['problem']})"
    return Advice(
        TOPIC,
        f"{words.kernel(first['name'])} reaches {share:.0%} of what the device allows",
        ns * (1 - share / _HALF),
        f"at most: its time less that at half of what the device allows for its operations and bytes ({sheet.name}, data sheet); "
        "small problems may not reach that",
        [
            f"It takes {words.share(subject, ns)} {subject.per}.",
            f"Its longest problem{problem} runs at {rate.reached / 1e12:.3g} TFLOP/s; the device's {rate.bound} allows "
            f"{rate.allowed / 1e12:.3g}.",
            *_why(rate.sizes, str(first["dtype"])),
            *words.where(rows, "layer"),
        ],
        words.text(subject, _CONVOLVES if convolves else _MULTIPLIES),
        rows=words.ids(rows),
    )


def _why(sizes: tuple[int, ...], dtype: str) -> list[str]:
    """Say which size of a product is likely the reason; nothing if all are large and even, or unknown."""
    if not sizes:
        return []
    said = f"A likely reason: of its sizes {' x '.join(map(str, sizes))}"
    multiple = _MULTIPLE.get(dtype, 1)
    if min(sizes) < _NARROW:
        return [f"{said}, {min(sizes)} is less than a tile of {_NARROW}."]
    return [f"{said}, not all are multiples of {multiple}."] if any(one % multiple for one in sizes) else []


RULES: tuple[Rule, ...] = (far_below,)
