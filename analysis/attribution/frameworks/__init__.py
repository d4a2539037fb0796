"""Turn one framework's raw evidence of a kernels pass into operators and kernels with their layers: a module per framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.attribution.frameworks import keras_loops
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, empty, intervals

_READS = ("item", "tolist", "cpu", "numpy")  # ranges around methods that read a tensor's values on the host
_CLIPS = "clip gradients"  # the range around torch.nn.utils.clip_grad_norm_
CLIPPING = f"({_CLIPS})"  # stands in place of a layer for the work in it

_SET_NS, _SLEWED = (
    10_000_000,
    0.1,
)  # most that a steered clock gains between anchors: chrony slews by 8.3%; beyond it was set


@dataclass(frozen=True)
class Clock:
    """Converts other clocks to our monotonic one by the anchors that the child wrote (`anchors` of child.json)."""

    monotonic_ns: npt.NDArray[np.int64]
    wall_ns: npt.NDArray[np.int64]

    @classmethod
    def from_anchors(cls, anchors: list[dict[str, int]], folder: Path | None = None) -> Clock:
        """Return the clock that a pass's anchors describe; raise EvidenceError if the wall clock was set between them.

        folder: the pass's folder, for the message.
        """
        table = pd.DataFrame(anchors)
        ours, wall = (table[name].to_numpy(np.int64) for name in ("monotonic_ns", "wall_ns"))
        gained = np.diff(wall - ours)
        if (np.abs(gained) > _SET_NS + _SLEWED * np.diff(ours)).any():
            where = f"{folder}: " if folder else ""
            raise EvidenceError(
                f"{where}the machine's clock was set by {gained.sum() / 1e9:+,.1f} s during the recording, so the libraries' "
                "output cannot be placed in time; record it again"
            )
        return cls(ours, wall)

    def from_wall(self, wall_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return monotonic times for wall-clock times, in ns, by the offset interpolated between anchors."""
        base = int(self.wall_ns[0])
        offsets = (self.monotonic_ns - self.wall_ns) - (self.monotonic_ns[0] - self.wall_ns[0])
        shift = np.interp((wall_ns - base).astype(float), (self.wall_ns - base).astype(float), offsets.astype(float))
        return np.asarray(wall_ns + int(self.monotonic_ns[0] - self.wall_ns[0]) + np.rint(shift).astype(np.int64))


@dataclass(frozen=True)
class Context:
    """What a module here may use besides the raw files: the pass's own records.

    steps, ranges: tables of analysis.trace (steps of the pass, warm-up included). network: as workloads.networks.as_dict
    wrote it. mode: train or infer. report: child.json (versions, settings, methods, operator_files, anchors). device: cpu or
    cuda. collector: what recorded the device's work (framework, nsys, nvprof, cupti); None if the run does not say.
    """

    steps: pd.DataFrame
    ranges: pd.DataFrame
    network: dict[str, Any]
    mode: str
    report: dict[str, Any]
    clock: Clock
    device: str = "cpu"
    collector: str | None = None

    def in_steps(self, at: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which times are inside measured steps."""
        measured = self.steps[~self.steps["warmup"]].sort_values("start_ns")
        return intervals.containing(at, *intervals.edges(measured)) >= 0


@dataclass
class Evidence:
    """The result: tables of analysis.trace, and counts of what could not be read or placed, by name.

    ranges: added to those of the pass: what communication libraries did on the CPU, on threads of their own. info: additions to
    the Trace's info, such as facts about each device. unavailable: what is missing, with the reason. captured: the framework's
    whole trace as the module of its capture format reads it, if it was read for the operators anyway.
    """

    operators: pd.DataFrame
    kernels: pd.DataFrame
    diagnostics: dict[str, int] = field(default_factory=dict)
    graphs: pd.DataFrame = field(default_factory=lambda: empty("graphs"))
    copies: pd.DataFrame = field(default_factory=lambda: empty("copies"))
    syncs: pd.DataFrame = field(default_factory=lambda: empty("syncs"))
    calls: pd.DataFrame = field(default_factory=lambda: empty("calls"))
    memory: pd.DataFrame = field(default_factory=lambda: empty("memory"))
    ranges: pd.DataFrame = field(default_factory=lambda: empty("ranges"))
    info: dict[str, Any] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    captured: Trace | None = None


def placed_ranges(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges, corrected by their context: all functions below, and keras_loops.placed."""
    return recomputed_ranges(input_ranges(keras_loops.placed(optimizers_reads(clipping_ranges(ranges)))))


def clipping_ranges(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with those of PyTorch's clip_grad_norm_ as a part of the step of their own; it updates no parameter.

    Older runs assign it to the optimizer's phase, unlike clipping that a program writes itself.
    """
    mine = ((ranges["category"] == "phase") & (ranges["name"] == _CLIPS)).fillna(False).to_numpy(bool)
    values = {"phase": "other", "layer": CLIPPING}
    texts = {name: ranges[name].astype("string").mask(mine, value).astype("category") for name, value in values.items()}
    return ranges.assign(**texts) if mine.any() else ranges


def optimizers_reads(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with values that PyTorch's optimizers read assigned to the optimizer; Adam reads a count per parameter.

    Such a range has no phase of its own, and would hide the phase of the range around it.
    """
    reads = ((ranges["category"] == "phase") & (ranges["phase"] == "other") & ranges["name"].isin(_READS)).fillna(False)
    others = ranges[(~reads & ranges["phase"].notna()).to_numpy(bool)]
    if not reads.any() or others.empty:
        return ranges
    around = intervals.innermost(*intervals.spans(others), *intervals.spans(ranges)[:2])
    theirs = (others["phase"] == "optimizer").fillna(False).to_numpy(bool)
    mine = reads.to_numpy(bool) & (around >= 0) & theirs[around]
    phase = ranges["phase"].astype("string").mask(mine, "optimizer").astype("category")
    return ranges.assign(phase=phase) if mine.any() else ranges


def input_ranges(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with those inside the making of a batch as input: of the phase data, and of no layer.

    A data set may transform its samples with modules and functions that have ranges.
    """
    making = ranges[(ranges["category"] == "data").to_numpy(bool)]
    says = (ranges["layer"].notna() | ranges["phase"].notna()).to_numpy(bool) & (ranges["category"] != "data").to_numpy(bool)
    if making.empty or not says.any():
        return ranges
    inside = says & (intervals.innermost(*intervals.spans(making), *intervals.spans(ranges)[:2]) >= 0)
    values = {"category": "data", "phase": "data", "layer": None}
    texts = {name: ranges[name].astype("string").mask(inside, value).astype(ranges[name].dtype) for name, value in values.items()}
    return ranges.assign(**texts) if inside.any() else ranges


def recomputed_ranges(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges with forward calls during a backward pass assigned to the phase backward.

    Gradient checkpointing calls layers again while gradients are computed. Their ranges say forward, as the hooks wrote them,
    but the time belongs to the backward phase. The kernels in them show the repeated work.
    """
    phase, category = (ranges[name].astype("string") for name in ("phase", "category"))
    around = ranges[(category == "phase") & (phase == "backward")].sort_values("start_ns")
    calls = ((category == "layer") & (phase == "forward")).to_numpy()
    if around.empty or not calls.any():
        return ranges
    start, end = intervals.edges(around)
    inside = calls & (intervals.containing(ranges["start_ns"].to_numpy(np.int64), start, np.maximum.accumulate(end)) >= 0)
    return ranges.assign(phase=phase.mask(inside, "backward").astype(ranges["phase"].dtype)) if inside.any() else ranges
