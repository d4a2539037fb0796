"""Copies within a device: tensors that are written a second time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from kernelscope.analysis.accounting.device_account import COPY
from kernelscope.analysis.advise import launches, words
from kernelscope.analysis.advise.compiled import KERNELS, REGIONS
from kernelscope.analysis.advise.model import Advice, Rule
from kernelscope.analysis.advise.subject import Subject

_WITHIN = "device to device"
_COPIES = ("aten::copy_", "aten::_to_copy", "aten::clone", "aten::contiguous")
_MUCH = 0.1  # of the device's time
_MOSTLY = 0.5  # of the copies' time
_REMEDIES = {
    "pytorch": "keep tensors in place: fewer clone(), contiguous(), cat() and copy_(); write into slices of one buffer (out=...)",
    "tensorflow": "fewer tf.identity, tf.concat and tf.Variable.assign of whole tensors in the step",
    "jax": "donate what a step replaces: jax.jit(step, donate_argnums=...)",
    "": "write results where they are needed, instead of copying them there",
}
_SMALL, _SHORT_NS = 1000, 3_000  # copies, and ns of each: as long as the smallest one, so their number takes the time
_GATHER = (
    "copy many of these pieces at once: one kernel that computes where they go, or one copy of a whole block or of strided rows"
)
_BY_COMPILER = (
    "these copies come from the compiler, not from the program: pass and return contiguous tensors, and change no input in place"
)
_INDUCTOR = "; compile with backend='inductor', which fuses copies into the kernels before them"


def within(subject: Subject) -> list[Advice]:
    """The device copies its own memory while nothing computes."""
    rows = subject.part(COPY)
    rows = rows[(rows["kind"] == _WITHIN).fillna(False).to_numpy(bool)]
    if subject.on_host or rows.empty:
        return []
    ns = words.time_of(rows)
    count, moved = float(rows["count"].sum()), float(rows["bytes"].sum(skipna=True)) if "bytes" in rows else 0.0
    size = f", {words.size(moved)} in all" if moved else ""
    alone = " while no kernel runs" if subject.timeline else ""
    made, compiled = _makers(subject)
    small = count >= _SMALL and float(rows["duration_ns"].sum()) <= _SHORT_NS * count
    pieces = [f"They take {words.duration(float(rows['duration_ns'].sum()) / count)} each on average."] if small else []
    remedy = _by_compiler(subject) if compiled else words.text(subject, _REMEDIES)
    return [
        Advice(
            "copies within the device",
            "the device copies its own memory in many small pieces" if small else "the device copies its own memory",
            ns,
            "all of it, if results are written where they are needed",
            [f"{words.count(count)} copies {subject.per} take {words.share(subject, ns)}{alone}{size}.", *pieces, *made],
            f"{_GATHER}; {remedy}" if small and not compiled else remedy,
            "",
            words.ids(rows),
        )
    ]


def by_operators(subject: Subject) -> list[Advice]:
    """A table that counts by operators has much time in copies, and does not tell what they copy."""
    if subject.timeline or subject.on_host or subject.trace.info.get("counted") != "operators":
        return []
    rows = subject.kernels()
    rows = rows[rows["name"].isin(_COPIES).fillna(False).to_numpy(bool)]
    ns = words.time_of(rows)
    if ns < _MUCH * subject.step_ns or not ns:
        return []
    return [
        Advice(
            "unknown copies",
            f"copies ({', '.join(rows['name'])}) take {ns / subject.step_ns:.0%} of the device's time",
            ns,
            "all of it, if no copy is needed",
            [f"{words.kernels(rows)}: the table does not tell what is copied, nor from where."],
            "find their lines: record with_stack=True and print key_averages(group_by_stack_n=5); then make tensors on the "
            "device that uses them, rather than .to(device) or .cuda() of the host's; convert types once, not in each step; no "
            ".contiguous() of transposed tensors where it is not needed",
            "",
            words.ids(rows),
        )
    ]


def _makers(subject: Subject) -> tuple[list[str], bool]:
    """Name the operators that launch such copies, and return whether most of the copies' time is in compiled code."""
    copies = subject.timed_copies(_WITHIN)
    took = (copies["end_ns"] - copies["start_ns"]).to_numpy(np.float64)
    calls = launches.of_copies(subject.trace, copies)
    direct = launches.named(launches.operators(subject.trace, calls), took / max(subject.count, 1))
    outer = launches.operators(subject.trace, calls, REGIONS)
    inside = took[outer.notna().to_numpy(bool)].sum() / max(took.sum(), 1)
    said = [f"Launched by {direct}."] if direct else []
    if inside > 0:
        sums = pd.Series(took, index=outer.index).groupby(outer).sum().nlargest(2)
        said.append(f"{inside:.0%} of that time is in compiled code: {', '.join(map(str, sums.index))}.")
    return said, bool(inside > _MOSTLY)


def _by_compiler(subject: Subject) -> str:
    fuses = subject.trace.kernels["name"].astype("string").str.contains(KERNELS).any()
    return _BY_COMPILER if fuses else _BY_COMPILER + _INDUCTOR


RULES: tuple[Rule, ...] = (within, by_operators)
