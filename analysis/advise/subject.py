"""What rules of advice look at: one recording's step in rows that add up to it, and what is known of how it ran."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import idle_causes
from kernelscope.analysis.accounting.breakdowns import Breakdown, breakdowns
from kernelscope.analysis.accounting.device_account import (
    ALL,
    COMPUTE,
    COPY,
    GRAPH,
    IDLE,
    KERNELS,
    account,
    is_host_timed,
    is_timed_by_device,
)
from kernelscope.analysis.accounting.growth import Growth, growth
from kernelscope.analysis.accounting.statistics import mean_step_ns, window_means
from kernelscope.analysis.advise import host_account
from kernelscope.analysis.advise.compiled import is_compiled
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.attribution import steps as finding_steps
from kernelscope.analysis.attribution.steps import Request
from kernelscope.analysis.attribution.steps.model import critical_device
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain.device.side import hardware_of
from kernelscope.analysis.explain.instrumentation import device_factors
from kernelscope.analysis.explain.sides import events_of
from kernelscope.analysis.recordings import archives, core_use, device_ends, kinds, reading
from kernelscope.analysis.recordings.kinds import Kind
from kernelscope.analysis.recordings.run import PassData, Run
from kernelscope.analysis.trace import Trace, intervals

_FEW, _UNEVEN = 4, 1.5  # steps of which no range is told; a tenth of the steps takes so many times as long as a tenth at most
STEPS, WHOLE = "a step", "in all"
_LONG_STEP = 5.0  # times three quarters of the steps: one is unlike the others
_MUCH = 0.2  # of all steps' time: such steps are told
# Frameworks that return from a step on the host's processors before it is computed
_ASYNCHRONOUS = ("jax", "mxnet")
_RECURRENT = ("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu")
_PLACES = {"npu": "on an NPU", "rocm": "on an AMD GPU"}  # how the names of devices begin, for which remedies have words


@dataclass
class Subject:
    """One recording as rules look at it.

    rows: the step by what was done (device_account.KEYS; count, duration_ns, time_ns per step); time_ns adds up to step_ns.
    device: of what the rows are: "cpu" or an accelerator. hardware: its name; None where not told. per: what times are of.
    facts: settings, options and machine of a run; empty for a capture. used_ns: processor time of a step, of all threads; None
    where not recorded. steps: what the steps were taken from, in words; None where nothing marks them. recorded_ns: how long
    all of a recording lasts whose device mostly idles, so that its kernels alone are the step; None for others. foreign_cores:
    how many cores other processes kept busy meanwhile; None where not known. count: the trace's measured steps. certain: whether
    what repeats is surely a step. lengths: of the measured steps, ns; empty where there are none. by_step: [rows, steps], ns of
    each row in each step; None where not known. program: whether the step is a whole program, which has none. derived: what
    several rules look at and made of this, by name.
    """

    path: str
    trace: Trace
    rows: pd.DataFrame
    step_ns: int
    device: str
    hardware: str | None
    per: str
    steps: str | None
    count: int
    facts: dict[str, Any] = field(default_factory=dict)
    used_ns: float | None = None
    waited_ns: int = 0
    timeline: bool = True
    recorded_ns: int | None = None
    foreign_cores: float | None = None
    certain: bool = True
    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    by_step: npt.NDArray[np.float64] | None = None
    program: bool = False
    derived: dict[str, Any] = field(init=False, default_factory=dict)

    @property
    def in_each(self) -> str:
        """Of what counts are: of each step, or of all that was recorded."""
        return "in each step" if self.per == STEPS else WHOLE

    @property
    def range_ns(self) -> list[int] | None:
        """The shortest and the longest step, where steps differ so much that their mean alone does not tell; else None."""
        if len(self.lengths) < _FEW:
            return None
        short, long = np.quantile(self.lengths, [0.1, 0.9])
        return [int(self.lengths.min()), int(self.lengths.max())] if long > _UNEVEN * short else None

    @cached_property
    def growth(self) -> Growth | None:
        """How the steps get longer from one to the next: of a run the clean ones, of a capture those that are surely steps."""
        if self.facts:
            return self.facts.get("growth")
        return growth([self.lengths]) if self.certain else None

    @property
    def untraced(self) -> str | None:
        """Why no operators and kernels of a run were recorded, but its layers alone, in words; None for others."""
        return self.facts.get("untraced")

    @property
    def unrecorded(self) -> str | None:
        """Why a recording holds nothing that computes, in words; None for others."""
        if self.rows["part"].isin([COMPUTE, GRAPH, COPY]).any() or self.facts:
            return None
        reasons = self.trace.info.get("unavailable") or {}
        some = "no kernels, and no operators that compute" if len(self.trace.operators) else "no kernels and no operators"
        return str(reasons.get("kernels") or f"the recording holds {some}")

    @cached_property
    def by_line(self) -> Breakdown | str:
        """The step by the host's lines on the timeline, which several rules look at; why there is none, or "" without lines."""
        return breakdowns(self.trace, ("line",))["line"] if len(self.trace.host_lines) else ""

    @cached_property
    def lines_of_rows(self) -> pd.DataFrame:
        """The host's lines during each row of a run that its processors compute (host_account.lines); empty for others.

        time_ns per step, without what recording cost: it adds up to at most that of the row, as some of it may lie in no line.
        """
        if not self.facts or not self.on_host or self.program:
            return pd.DataFrame()
        return host_account.lines(self.trace, self.rows)

    @cached_property
    def recurrent(self) -> frozenset[str]:
        """Layers that are one operator of PyTorch's on the host, for all steps of a recurrence: torch.compile skips nn.GRU."""
        operators = self.trace.operators
        if not self.on_host:
            return frozenset()
        return frozenset(operators["layer"][operators["name"].isin(_RECURRENT).to_numpy(bool)].dropna().astype(str))

    @cached_property
    def waiting_calls(self) -> pd.DataFrame:
        """The calls within the measured steps that wait for the device; see attribution.calls.waits."""
        calls = self.inside_steps(self.trace.calls)
        return calls[api.waits(calls)] if len(calls) else calls

    @property
    def framework(self) -> str:
        """The framework; empty where it is not known."""
        return str(self.facts.get("framework") or self.trace.info.get("framework") or "")

    @property
    def kinds(self) -> list[str]:
        """What a remedy may be written for, the most special first: "" is for any program."""
        name = self.framework
        family, _, backend = name.partition("-")
        names = [one for one in dict.fromkeys((name, family, backend)) if one]
        if "tensorflow" in names and self._is_version_1():
            names.insert(names.index("tensorflow"), "tensorflow 1")
        compiled = [f"{one}, compiled" for one in names] if is_compiled(self.trace) or self._is_compiled() else []
        eager = [f"{one}, eager" for one in names] if self.setting("execution") == "eager" else []
        on_host = [f"{one}, on the host" for one in names] if self.on_host else []
        place = next((words for prefix, words in _PLACES.items() if self.device.startswith(prefix)), "")
        on_device = [f"{one}, {place}" for one in names if place]
        return [*compiled, *eager, *on_host, *on_device, *names, *filter(None, [place]), ""]

    def _is_compiled(self) -> bool:
        """Whether the framework said that it compiles the program; MXNet, that it runs its blocks as graphs."""
        return str(self.setting("execution") or "").startswith(("compiled", "hybridized"))

    def _is_version_1(self) -> bool:
        """Whether TensorFlow is of version 1, whose programs run a graph by session.run."""
        version = (self.trace.info.get("versions") or {}).get("tensorflow") or ""
        return (self.trace.info.get("source") or {}).get("format") == "tensorflow-timeline" or str(version).startswith("1.")

    @property
    def on_host(self) -> bool:
        """Whether the host's processors compute."""
        return self.device == "cpu"

    @property
    def cores(self) -> int | None:
        """How many cores the program may use; None where not recorded."""
        found = (self.facts.get("machine") or {}).get("allowed_threads")
        return int(found) if found else None

    def setting(self, name: str) -> Any:
        """Return a setting that the framework reported; None where it did not."""
        return (self.facts.get("settings") or {}).get(name)

    def kernels(self, kinds_: Collection[str] | None = None) -> pd.DataFrame:
        """Return the rows of computing kernels, of these kinds only where any are given."""
        rows = self.rows[(self.rows["part"] == COMPUTE).to_numpy(bool)]
        return rows if kinds_ is None else rows[rows["kind"].isin(list(kinds_)).to_numpy(bool)]

    def idle(self, causes: Collection[str]) -> pd.DataFrame:
        """Return the rows in which nothing computes, by these causes."""
        return self.rows[((self.rows["part"] == IDLE) & self.rows["cause"].isin(list(causes))).to_numpy(bool)]

    def part(self, name: str) -> pd.DataFrame:
        """Return the rows of one part (device_account.PARTS)."""
        return self.rows[(self.rows["part"] == name).to_numpy(bool)]

    def inside_steps(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table of events that begin within the measured steps; all of them where nothing marks steps."""
        steps = self.trace.steps[~self.trace.steps["warmup"]]
        if steps.empty or table.empty:
            return table
        at = table["start_ns"].to_numpy(np.int64, na_value=-1)
        first, last = (steps.sort_values("start_ns")[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        return table[intervals.containing(at, first, last) >= 0]


def read(path: Path, request: Request | None = None) -> Subject:
    """Return what is recorded at a path; raise EvidenceError for what cannot be read or holds nothing to advise on."""
    name = archives.named(str(path))
    path = archives.folder(path)
    kind = kinds.kind_of(path)
    if kind in (Kind.IMPORT, Kind.CAPTURE):
        return of_trace(reading.read(path), name, request)
    return of_run(Run(path), name)


def of_trace(trace: Trace, path: str, request: Request | None = None) -> Subject:
    """Return a capture as rules look at it."""
    request = request or Request()
    trace = finding_steps.windowed(trace, request)
    if len(trace.lines) and not trace.has_timeline() and trace.kernels.empty:
        rows, step_ns = host_account.of_lines(trace)
        return Subject(path, trace, rows, step_ns, "cpu", None, WHOLE, None, 0, timeline=False)
    if critical_device(trace) is None and not is_host_timed(trace) and trace.has_timeline():
        rows, step_ns = host_account.of_trace(trace)
        measured = int((~trace.steps["warmup"]).sum())
        return Subject(path, trace, rows, step_ns, "cpu", None, STEPS if measured else WHOLE, None, measured)
    found = finding_steps.find(trace, request)
    trace = finding_steps.applied(trace, found)
    whole = is_host_timed(trace) or (trace.has_timeline() and critical_device(trace) is None)
    done = account(trace, ALL if whole else request.device, hiding=True)
    result = Subject(
        path, trace, done.rows, done.step_ns, done.device, hardware_of(trace, done.device),
        STEPS if done.basis == "steps" else WHOLE, found.sentence() if found else None, len(done.lengths),
        waited_ns=done.waited_ns, timeline=done.basis in ("steps", "window"),
        recorded_ns=_extent(trace) if done.basis == KERNELS else None, certain=found is None or found.certain,
        lengths=done.lengths if done.basis == "steps" else done.lengths[:0],
        by_step=done.by_window if done.basis == "steps" else None,
    )  # fmt: skip
    if len(result.inside_steps(trace.calls)):  # a host that does not wait is ahead by no more than it waits
        waits = result.waiting_calls
        lasted = float((waits["end_ns"] - waits["start_ns"]).sum())
        result.waited_ns = min(result.waited_ns, round(lasted / max(result.count, 1)))
    return result


def _extent(trace: Trace) -> int:
    """Return the time from the first to the last event of a recording, ns."""
    first, last = trace.extent() or (0, 0)
    return last - first


def _long_steps(passes: Sequence[PassData]) -> dict[str, int] | None:
    """Return how many clean steps of how many are much longer than the others, and how long they are of all, ns; None for none.

    The median, which is the step, has nothing of them: a program that does something else now and then is mostly in that.
    """
    durations = np.concatenate([np.zeros(0, dtype=np.int64), *(_lengths(one.measured) for one in passes)])
    long = durations[_is_long(durations)]
    if not len(long):
        return None
    return {"count": len(long), "of": len(durations), "ns": int(long.sum()), "of_ns": int(durations.sum())}


def _is_long(durations: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which steps are much longer than the others; none where they take no good part of all."""
    long = durations > _LONG_STEP * np.quantile(durations, 0.75) if len(durations) else np.zeros(0, dtype=bool)
    return np.asarray(long & (durations[long].sum() >= _MUCH * durations.sum()))


def _typical(trace: Trace) -> Trace:
    """Return a run's trace without steps that are much longer than the others: the clean step, a median, has nothing of them."""
    measured = ~trace.steps["warmup"].to_numpy(bool)
    long = _is_long(_lengths(trace.steps[measured]))
    if not long.any():
        return trace
    aside = trace.steps["warmup"].to_numpy(bool, copy=True)
    aside[np.flatnonzero(measured)[long]] = True
    return replace(trace, steps=trace.steps.assign(warmup=aside))


def of_run(run: Run, path: str) -> Subject:
    """Return a run as rules look at it."""
    trace, untraced = _recorded(run)
    passes = run.passes("clean")
    queued = _is_queued(run, trace, passes)
    trace = trace if queued or critical_device(trace) is not None else _typical(trace)
    facts = {name: run.record.get(name) for name in ("framework", "settings", "options", "machine", "noise", "left_out_steps")}
    if passes and passes[0].report.get("settings"):
        facts["settings"] = passes[0].report["settings"]
    facts["untraced"] = untraced
    facts["compiled"] = passes[0].report.get("compiled") if passes else None
    facts["padding"] = passes[-1].report.get("padding") if passes else None
    facts["batches_by_workers"] = any(one.report.get("batches_by_workers") for one in run.passes("kernels"))
    facts["clean_steps"] = len(passes[0].measured) if passes else 0
    facts["long_steps"] = None if queued else _long_steps(passes)
    facts["growth"] = None if queued else run.growth
    if critical_device(trace) is not None:
        return _named(_without_recording(of_trace(trace, path), run, facts), run)
    if run.whole and not trace.has_timeline():
        return _named(_of_lines(trace, run, path), run)
    rows, step_ns = host_account.of_run(run, trace)
    facts["traced_step_ns"] = mean_step_ns(trace.steps[~trace.steps["warmup"]])
    steps = run.clean_steps()
    used = (steps["user_ns"] + steps["system_ns"]).mean() if len(steps) else None
    facts["clean"] = {name: float(steps[name].median()) for name in ("minor_faults", "system_ns") if steps[name].notna().any()}
    recorded = int((~trace.steps["warmup"]).sum())
    subject = Subject(
        path, trace, rows, step_ns, "cpu", None, STEPS, "marked while recording", recorded, facts,
        None if used is None or pd.isna(used) else float(used), foreign_cores=core_use.foreign_of_run(run),
        lengths=_lengths(steps, queued),
    )  # fmt: skip
    return _named(subject, run)


def _of_lines(trace: Trace, run: Run, path: str) -> Subject:
    """Return a whole program of which only lines were recorded: they have their shares of what it takes unrecorded."""
    subject = of_trace(trace, path)
    clean_ns = run.clean_step_ns
    if clean_ns:
        subject.rows["time_ns"] = intervals.apportion(subject.rows["time_ns"].to_numpy(float), clean_ns)
        subject.step_ns = clean_ns
    return subject


def _named(subject: Subject, run: Run) -> Subject:
    """Return it with what its step is: of a program without any it is the program."""
    if run.whole:
        subject.program, subject.per, subject.steps = True, WHOLE, None
    return subject


def _without_recording(subject: Subject, run: Run, facts: dict[str, Any]) -> Subject:
    """Return a run's step on a device as long as the clean one: what recording cost is taken out of the host's time.

    See explain.instrumentation; the device times its own work, which recording makes no longer.
    """
    clean_ns = run.clean_step_ns
    subject.facts = {**facts, "traced_step_ns": subject.step_ns}
    if not clean_ns or subject.per != STEPS or not is_timed_by_device(subject.trace):
        return subject
    rows = subject.rows
    time_ns = rows["time_ns"].to_numpy(dtype=float)
    host = rows.assign(cause=rows["cause"].mask((rows["cause"] == idle_causes.QUEUED).fillna(False)))
    kept = device_factors(host, time_ns, events_of(subject.trace), float(clean_ns))
    subject.rows = rows.assign(time_ns=intervals.apportion(time_ns * kept, clean_ns))
    before, after = (int(table.loc[table["part"] == IDLE, "time_ns"].sum()) for table in (rows, subject.rows))
    subject.waited_ns = round(subject.waited_ns * after / max(before, 1))
    subject.step_ns = clean_ns
    subject.lengths = _lengths(run.clean_steps(), _is_queued(run, subject.trace, run.passes("clean")))
    return subject


def _is_queued(run: Run, trace: Trace, passes: Sequence[PassData]) -> bool:
    """Return whether clean steps end before their work is done, so that one of a window waits for all, and none has its own time.

    So it is where a framework returns before it has computed, and on a device whose own ends of steps were not recorded.
    """
    if critical_device(trace) is not None:
        return not any(one.report.get(device_ends.KEY) for one in passes)
    return any(name in run.framework.split("-") for name in _ASYNCHRONOUS)


def _lengths(steps: pd.DataFrame, queued: bool = False) -> npt.NDArray[np.int64]:
    """Return how long steps took, ns; of queued ones the means of their windows."""
    return np.asarray(window_means(steps) if queued else steps["end_ns"] - steps["start_ns"]).astype(np.int64)


def _recorded(run: Run) -> tuple[Trace, str | None]:
    """Return the Trace of the kernels pass; where there is no other that of the layers pass, and why that is so."""
    try:
        return run.trace(), None
    except EvidenceError:
        layers = run.layers_trace()
        if layers is None:
            raise
        return layers, run.why_no_kernels()
