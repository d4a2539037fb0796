"""Kernels that keep few warps resident, by their launches: what limits them. Hardware counters tell more: see rules.counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from kernelscope.analysis.advise import words
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.rules.filling import multiprocessors
from kernelscope.analysis.advise.subject import Subject
from kernelscope.analysis.device import datasheets, occupancy
from kernelscope.analysis.kernels import work
from kernelscope.analysis.trace import MAIN, Trace

TOPIC = "occupancy"
LARGE = 0.05  # of the step: shorter kernels are not looked at
LAUNCH = 10_000  # ns: shorter kernels are bound by their launch
_LOW = 0.25  # of the warps that a multiprocessor can hold
_HALF = 0.5  # of a kernel's time
_MOSTLY = 0.9  # of a kernel's time: launches alike
_REACHED = 0.9  # of the data sheet's memory bandwidth
_MOST = 3  # kernels that are named
# In names of kernels that keep few warps on purpose: each has much to do at once
_DENSE = r"(?i)gemm|gemv|matmul|mma\b|wgmma|conv|attn|attention|flash|moe|marlin|persistent|rnn|lstm|gru|cutlass|bmm|einsum"
# Libraries' kernels are as they were built
_BUILT = (
    r"(?i)\bat(?:_cuda_detail)?::|\bcudnn|\bcub::|\bthrust::|\bcublas|\bcusparse|\bnccl|\bcufft|^(?:volta|turing|ampere|sm\d+)_"
)
_TRITON = r"^triton_"
_REMEDIES = {
    "registers": "use fewer registers a thread: smaller tiles, __launch_bounds__ or -maxrregcount (watch for spills)",
    "shared memory": "use less shared memory a block: smaller tiles, or fewer stages",
    "warps": "use other sizes of blocks: 128 to 256 threads",
    "blocks": "use larger blocks: 128 to 256 threads",
    "grid": "launch more blocks or larger ones: split the work further, or batch several problems into one launch",
}
_OF_TRITON = {
    "registers": "try smaller blocks (XBLOCK, RBLOCK) or more warps (num_warps); with torch.compile, mode='max-autotune' tries "
    "them",
    "shared memory": "try smaller blocks or fewer stages (num_stages); with torch.compile, mode='max-autotune' tries them",
}
_NAMES = {
    "registers": "its registers limit them", "shared memory": "its shared memory limits them",
    "warps": "the size of its blocks limits them", "blocks": "its blocks are small", "grid": "its grid is small",
}  # fmt: skip
_COUNTERS = "Whether it waits for lack of warps, only hardware counters tell: `ncu --set full`."


def low_occupancy(subject: Subject) -> list[Advice]:
    """Kernels that fill few of the device's slots for warps; products and attention are fast with few."""
    if subject.on_host or len(subject.trace.metrics):
        return []
    rows = _candidates(subject)
    if rows.empty:
        return []
    trace = _of_names(subject, rows)
    launches = _launches(subject, occupancy.table(trace))
    rows = rows.merge(launches, on=["name", "grid"], how="inner").set_index("row")
    sums = rows.groupby("name")["time_ns"].sum()
    large = sums[sums >= LARGE * subject.step_ns].nlargest(_MOST)
    return [one for name in large.index for one in _advice(subject, trace, rows[(rows["name"] == name).to_numpy(bool)])]


def _candidates(subject: Subject) -> pd.DataFrame:
    """Return the rows of large kernels whose launches are the program's own choice, with their index as `row`."""
    rows = subject.kernels()
    names = rows["name"].astype("string").fillna("")
    kept = rows["grid"].notna() & ~rows["kind"].isin(MAIN) & ~names.str.contains(_DENSE) & ~names.str.contains(_BUILT)
    kept &= rows["library"].isna() & (rows["duration_ns"] > LAUNCH * rows["count"])
    rows = rows[kept.fillna(False).to_numpy(bool)]
    sums = rows.groupby(rows["name"].astype("string"))["time_ns"].transform("sum")
    rows = rows[(sums >= LARGE * subject.step_ns).to_numpy(bool)]
    columns = {name: rows[name].astype("string") for name in ("name", "grid")}
    return rows.assign(row=rows.index, **columns)


def _of_names(subject: Subject, rows: pd.DataFrame) -> Trace:
    """Return the trace with only the device's kernels of these rows' names."""
    kernels = subject.trace.kernels
    mine = kernels["name"].isin(rows["name"].unique()) & (kernels["device"] == subject.device)
    return replace(subject.trace, kernels=kernels[mine.fillna(False).to_numpy(bool)].reset_index(drop=True))


def _launches(subject: Subject, table: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels and grids whose occupancy is low: name, grid, filled (its mean, 0 to 1), limiter and block.

    Grids with fewer blocks than multiprocessors are left out: see rules.filling.
    """
    processors = multiprocessors(subject) or 0
    filled = table[["occupancy", "mean_occupancy"]].astype("float64").min(axis=1)
    blocks = table["grid"].map(_blocks).astype("float64")
    low = ((filled < _LOW) & (blocks >= processors)).to_numpy(bool)
    small = (table["occupancy"].astype("float64") >= _LOW).to_numpy(bool)
    table = table.assign(filled=filled, low_ns=table["duration_ns"].where(low, 0), limiter=table["limiter"].mask(small, "grid"))
    table = table.assign(name=table["kernel"].astype("string"), grid=table["grid"].astype("string"))
    keys = ["name", "grid"]
    first = table.drop_duplicates(keys)[[*keys, "filled", "limiter", "block", "registers", "shared_memory"]]
    sums = table.groupby(keys)[["duration_ns", "low_ns"]].sum().reset_index()
    mostly = sums.loc[(sums["low_ns"] > _MOSTLY * sums["duration_ns"]).to_numpy(bool), keys]
    return mostly.merge(first, on=keys)


def _blocks(grid: object) -> float:
    result = 1.0
    for size in str(grid).split(","):
        result *= float(size) if size.strip().isdigit() else float("nan")
    return result


def _advice(subject: Subject, trace: Trace, rows: pd.DataFrame) -> list[Advice]:
    """Return the advice on one kernel, whose rows these are; none if it moves memory about as fast as the device can."""
    first = rows.nlargest(1, "time_ns").iloc[0]
    name, limiter, filled = str(first["name"]), str(first["limiter"]), float(first["filled"])
    ns = words.time_of(rows)
    saves, modelled, estimate, moved = _saving(subject, trace, name, ns, filled)
    remedies = {**_REMEDIES, **_OF_TRITON} if pd.Series([name]).str.contains(_TRITON).any() else _REMEDIES
    return [
        Advice(
            TOPIC,
            f"{words.kernel(name)} fills at most {filled:.0%} of the device's slots for warps: {_NAMES[limiter]}",
            saves,
            estimate,
            [
                f"It takes {words.share(subject, ns)} {subject.per}.",
                f"It is launched in {_blocks(first['grid']):,.0f} blocks of {_blocks(first['block']):,.0f} threads, with "
                f"{int(first['registers'])} registers a thread and {words.size(float(first['shared_memory']))} of shared memory "
                "a block.",
                *moved,
                _COUNTERS,
            ],
            remedies[limiter],
            rows=words.ids(rows),
            modelled=modelled,
            last=modelled,  # whether it waits for memory at all is not known then
        )
    ]


def _saving(subject: Subject, trace: Trace, name: str, ns: int, filled: float) -> tuple[float, bool, str, list[str]]:
    """Return what more warps save at most, whether that is a model, how it was worked out, and what the kernel moves."""
    sheet = datasheets.lookup(subject.hardware, multiprocessors(subject))
    rate = _bytes_per_s(trace, name)
    if rate is None or sheet is None or not sheet.bandwidth:
        estimate = (
            "half of its time, assumed: a kernel that waits for memory gets faster as more of its warps wait at once, up to "
            "about half of the slots; one that does not wait gains nothing, and the bytes that it moves are not known"
        )
        return ns * _HALF, True, estimate, []
    share = rate / sheet.bandwidth
    saves = ns * max(min(1 - share / _REACHED, 1 - filled), 0.0)
    estimate = f"at most its time less that of its bytes at {_REACHED:.0%} of the memory's peak"
    said = f"It moves {rate / 1e9:,.0f} GB/s, {share:.0%} of the {sheet.bandwidth / 1e9:,.0f} GB/s of {sheet.name} (data sheet)."
    return saves, False, estimate, [said]


def _bytes_per_s(trace: Trace, name: str) -> float | None:
    """Return a kernel's (algorithmic) bytes per second; None unless those of most of its time are known."""
    mine = (trace.kernels["name"] == name).fillna(False).to_numpy(bool)
    moved: Any = work.of_kernels(trace)["bytes"][mine]
    duration = trace.kernels["duration_ns"][mine]
    known = moved.notna().to_numpy(bool)
    lasted = int(duration[known].sum())
    return float(moved[known].sum()) / lasted * 1e9 if lasted > _MOSTLY * int(duration.sum()) else None


RULES: tuple[Rule, ...] = (low_occupancy,)
