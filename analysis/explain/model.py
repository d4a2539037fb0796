"""What an explanation consists of: two sides, the account of their difference, and what rules suspect as its causes.

Signs: a difference is B minus A, so positive ns make B slower. All times are per step; a capture without steps counts as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting.device_account import is_timed_by_device
from kernelscope.analysis.accounting.statistics import Difference
from kernelscope.analysis.trace import Trace

# Columns of an account's tables
ROW_COLUMNS = (
    "row", "layer", "layer_a", "layer_b", "phase", "cell", "a_ns", "b_ns", "delta_ns", "ci_low_ns", "ci_high_ns",
    "significant", "a_count", "b_count",
)  # fmt: skip
SIDES = ("a", "b")
CLOSE = 0.05  # of a step: without an interval a smaller difference may be noise
LEAST_SEEN = 0.05  # of the processor time of a step: it does not show a smaller difference by itself
INSTRUMENTATION = "(profiling overhead)"  # in place of a row: the part of the wall difference that no recorded cell holds


@dataclass(frozen=True)
class Layer:
    """One layer of one side, as far as the capture shows. None is unknown.

    type: convolution, dense, lstm, tanh, ... as in workloads.networks, or the kind of its kernels. output_shape: without the
    batch. flops: of the forward pass for one sample. order: rank of its first forward work within a step.
    """

    name: str
    order: int
    type: str | None = None
    output_shape: tuple[int, ...] | None = None
    flops: int | None = None
    parameters: int | None = None


@dataclass(frozen=True)
class Match:
    """Layers of A and B that correspond: usually one of each.

    a, b: names; empty on the side that lacks the layer; several if one side fused or split what the other has. confidence: 0 to
    1. how: name, map, alignment, fused, missing. note: what is special (shared, recomputed, fused, missing), in words; or None.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    confidence: float
    how: str
    note: str | None = None

    @property
    def label(self) -> str:
        """The pair's name in tables: the name, or both names if they differ."""
        a, b = " + ".join(self.a), " + ".join(self.b)
        return a if a == b or not b else b if not a else f"{a} = {b}"


@dataclass
class Side:
    """One side of an explanation.

    name: its name for people. windows: one row per recorded window of the traced pass: restart, window, wall_ns (per step), and
    steps; a capture without windows has some consecutive steps per row, one without steps a single row. cells: one row per
    window and distinct keys of accounting.partition.KEYS, with `window_row` (row of windows), count, duration_ns and time_ns
    per step (float; they add up to the window's wall_ns). clean: the measured steps of each restart of the clean pass (columns
    of trace.STEPS); empty if only a trace exists. clean_ns: the clean step, the median of its windows; None without a clean
    pass. trace: the most representative recording, for rules that look at single events; its windows are among `windows`.
    facts: plain data: framework, version, versions, settings, variables, options, machine, conditions, devices, network, ...
    layers_ns: the time of each layer and phase per step in the layers pass (index: label of the layer or group, phase); None if
    that pass does not know the layers. grouped: which layers are one group in it (see instrumentation.layer_groups). events:
    recorded events (operators, kernels, ranges) per step by layer and phase, index (layer, phase), null as "". missing: what
    the capture does not hold -> why. sources: the program's own files, path -> text; empty if not kept. foreign_cores: how many
    cores other processes kept busy during the recording; None if unknown.
    """

    name: str
    path: str
    trace: Trace
    windows: pd.DataFrame
    cells: pd.DataFrame
    clean: list[pd.DataFrame]
    clean_ns: int | None
    layers: list[Layer]
    events: pd.Series[float]
    layers_ns: pd.Series[float] | None = None
    grouped: dict[str, dict[str, str]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    check: dict[str, Any] | None = None
    missing: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    foreign_cores: float | None = None

    @property
    def framework(self) -> str | None:
        """The framework, if known."""
        return self.facts.get("framework")

    @property
    def by_device(self) -> bool:
        """Whether an accelerator times kernels and copies, by its own clock."""
        return is_timed_by_device(self.trace)


@dataclass(frozen=True)
class Wall:
    """Wall time of a step on both sides in ns, and the interval (95%) of the difference; None if there is none."""

    a_ns: int
    b_ns: int
    interval_ns: tuple[int, int] | None

    @property
    def delta_ns(self) -> int:
        """How much longer B takes."""
        return self.b_ns - self.a_ns

    @property
    def significant(self) -> bool | None:
        """Whether the interval excludes zero; None without an interval."""
        return Difference(self.delta_ns, self.interval_ns).significant

    @property
    def floor_ns(self) -> int | None:
        """The smallest difference that these recordings can show; None without an interval."""
        return Difference(self.delta_ns, self.interval_ns).detection_limit_ns


@dataclass
class Account:
    """The exact account: rows["delta_ns"].sum() + instrumentation_ns == wall.delta_ns.

    rows: ROW_COLUMNS, indexed by `row` (r1, r2, ...). layer is the label of the match; layer_a and layer_b are null if that
    side has none. cell: a kind of trace.KINDS, "(device: ...)" or "(host: <cause>)", as from breakdowns.kind_labels. ci_*:
    interval (95%) of delta_ns, null if none; significant: null if none. a_count, b_count: executions per step. cells: the cells
    of the rows: row, side ("a" or "b"), all of partition.KEYS, count and duration_ns per step (float), and time_ns (int; adds
    up to the row's a_ns or b_ns). samples: bootstrap samples of delta_ns, [resamples, rows], and by_restart: its estimate for
    each restart, [restarts, rows]; None if there is no interval (see estimates). removed_ns: per side, the cost of recording
    that was taken out of host rows (see instrumentation). recorded_ns: per side, the step as recorded by the traced pass.
    restarts: how many restarts both sides have. floor: share of a time by which two processes of one program differ; 0 if
    restarts show that (see noise). processor: the processor time of both clean steps over all threads; None if not recorded.
    """

    wall: Wall
    rows: pd.DataFrame
    cells: pd.DataFrame
    instrumentation_ns: int
    removed_ns: dict[str, int]
    recorded_ns: dict[str, int]
    samples: npt.NDArray[np.float64] | None
    by_restart: npt.NDArray[np.float64] | None
    restarts: int
    floor: float = 0.0
    processor: Wall | None = None

    @property
    def seen_by_processor(self) -> bool:
        """Whether processor time shows the difference, as wall times of one restart, or disturbed ones, may be too noisy."""
        used = self.processor
        if used is None or not used.significant or used.delta_ns * self.wall.delta_ns <= 0:
            return False
        return abs(used.delta_ns) >= LEAST_SEEN * max(used.a_ns, used.b_ns)

    def of_side(self, side: str) -> pd.DataFrame:
        """Return the cells of side "a" or "b"."""
        return self.cells[self.cells["side"] == side]


@dataclass
class Case:
    """Everything that a rule may look at. differences: settings and versions that differ: name -> (value of A, value of B).

    changes: which lines of the program differ, and their times (see changed_lines).
    """

    a: Side
    b: Side
    matches: list[Match]
    account: Account
    differences: dict[str, tuple[Any, Any]]
    changes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows(self) -> pd.DataFrame:
        """The account's rows."""
        return self.account.rows

    @property
    def same_framework(self) -> bool:
        """Whether both sides are the same framework in the same version."""
        versions = [(side.framework, side.facts.get("version")) for side in (self.a, self.b)]
        return versions[0] == versions[1] and versions[0][0] is not None

    def setting(self, name: str) -> tuple[Any, Any]:
        """Return a setting's value on both sides; None if a side does not state it."""
        a, b = (side.facts.get("settings", {}).get(name) for side in (self.a, self.b))
        return a, b


@dataclass
class Suspicion:
    """A possible cause that one rule found.

    cause: the rule's fixed name, such as "layout conversions". claims: row id -> ns of that row's difference (with its sign)
    that the cause accounts for, including INSTRUMENTATION; rules claim freely, and `claims.settle` grants each ns once.
    precedence: lower is granted first: 0 a recorded difference that decides the rows it claims by itself, 1 evidence in kernels
    and events, 2 what is left over and only plausible. confidence: high, medium or low. evidence: sentences with numbers;
    remedy: what to do, with the framework's own setting.
    """

    cause: str
    title: str
    claims: dict[str, float]
    confidence: str
    evidence: list[str]
    remedy: str
    precedence: int = 1


Rule = Callable[[Case], list[Suspicion]]
