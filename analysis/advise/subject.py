"""What the rules of advice look at: one recording's step in rows that add up to it, and what is known about how it ran."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernelscope.analysis.accounting import idle_causes, moved_pages
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
    on_device,
)
from kernelscope.analysis.accounting.growth import Growth, growth
from kernelscope.analysis.accounting.statistics import mean_step_ns, window_means
from kernelscope.analysis.advise import changing, host_account
from kernelscope.analysis.advise.compiled import is_compiled
from kernelscope.analysis.attribution import calls as api
from kernelscope.analysis.attribution import device_steps
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
from kernelscope.analysis.trace import Trace, intervals, page_faults

_FEW, _UNEVEN = 4, 1.5  # a range of steps needs at least so many steps, and a 90th percentile of so many times the 10th
STEPS, WHOLE = "a step", "in all"
_LONG_STEP = 5.0  # times the third quartile of the steps: a longer step is unlike the others
MEDIAN = 3  # windows, of which the step is the median; of fewer, a long step is a part of it
_APART = 1.25  # times the median of the steps
_MUCH = 0.2  # of all steps' time: long steps that take this share are reported
# Frameworks that return from a step on the host's processors before it is computed
_ASYNCHRONOUS = ("jax", "mxnet")
_RECURRENT = ("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu")
# Prefixes of devices that have remedies of their own; those of no other accelerator
_PLACES = {"npu": "on an NPU", "rocm": "on an AMD GPU"}
_USUAL = ("cuda", "cpu", ALL)
_ELSEWHERE = "on another accelerator"
VLLM = "vllm"  # serves models; its programs have PyTorch's operators, too
_OF_VLLM = r"(?i)\bvllm\b|^vllm"
_LAUNCHES = r"(?i)launch|memcpy|memset"
_NOTHING_RAN = (
    "nothing ran while the profiler was active, though it recorded the calls of the device's API: check its schedule (wait, "
    "warmup, active) and where prof.step() is called"
)
_COUNTED = ("minor_faults", "system_ns", "involuntary_switches")  # of each clean step
_ROCPROF = "rocprof"  # tools whose names begin so profile AMD's GPUs alone
_OF_PYTORCH, _NOTICEABLE = r"\bat::native::", 0.05  # in names of its kernels; of the time
_HIP = r"^hip[A-Z]"  # calls of the API of AMD's GPUs


@dataclass
class Subject:
    """One recording as the rules see it.

    rows: the step by what was done (device_account.KEYS; count, duration_ns, time_ns per step); time_ns adds up to step_ns.
    device: the device of the rows, "cpu" or an accelerator. hardware: its name; None if unknown. per: what times refer to.
    facts: settings, options and machine of a run; empty for a capture. used_ns: processor time of a step over all threads; None
    if not recorded. steps: how the steps were found, in words; None if nothing marks them. recorded_ns: the time of the whole
    recording, if its device is mostly idle and its kernels alone count as the step; else None. foreign_cores: how many cores
    other processes kept busy; None if unknown. count: the trace's measured steps. certain: whether what repeats is surely a
    step. lengths: of the measured steps, ns; empty if there are none. by_step: [rows, steps], ns of each row in each step; None
    if unknown. program: whether the step is a whole program, which has no steps. derived: results that several rules share, by
    name.
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
    migrations: pd.DataFrame = field(default_factory=pd.DataFrame)
    derived: dict[str, Any] = field(init=False, default_factory=dict)
    _known: dict[frozenset[str] | None, pd.DataFrame] = field(init=False, default_factory=dict)
    _known_of: pd.DataFrame | None = field(init=False, default=None)

    @property
    def in_each(self) -> str:
        """What counts refer to: each step, or the whole recording."""
        return "in each step" if self.per == STEPS else WHOLE

    @property
    def range_ns(self) -> list[int] | None:
        """The shortest and the longest step, if steps differ too much for their mean to describe them; else None."""
        if len(self.lengths) < _FEW:
            return None
        short, long = np.quantile(self.lengths, [0.1, 0.9])
        outliers = self.lengths.mean() > _UNEVEN * np.median(self.lengths)
        return [int(self.lengths.min()), int(self.lengths.max())] if outliers or long > _UNEVEN * short else None

    @cached_property
    def growth(self) -> Growth | None:
        """How steps get longer one after another: clean steps of a run; of a capture, only what are surely steps."""
        if self.facts:
            return self.facts.get("growth")
        return growth([self.lengths]) if self.certain else None

    @property
    def untraced(self) -> str | None:
        """Why only a run's layers were recorded, and no operators or kernels, in words; else None."""
        return self.facts.get("untraced")

    @property
    def unrecorded(self) -> str | None:
        """Why a recording holds nothing that computes, in words; else None."""
        if self.rows["part"].isin([COMPUTE, GRAPH, COPY]).any() or self.facts:
            return None
        reasons = self.trace.info.get("unavailable") or {}
        if self._is_idle():
            return _NOTHING_RAN
        some = "no kernels, and no operators that compute" if len(self.trace.operators) else "no kernels and no operators"
        return str(reasons.get("kernels") or f"the recording holds {some}")

    def _is_idle(self) -> bool:
        """Whether PyTorch's profiler watched a device of NVIDIA or AMD, on which nothing was launched, and no operator ran."""
        calls = self.trace.calls
        watched = self.framework == "pytorch" and (calls["api"] == "runtime").any() and self.trace.operators.empty
        return bool(watched) and not calls["name"].astype("string").str.contains(_LAUNCHES).any()

    @cached_property
    def by_line(self) -> Breakdown | str:
        """The step by the host's lines on the timeline; why there is none, or "" without lines. Several rules use it."""
        return breakdowns(self.trace, ("line",))["line"] if len(self.trace.host_lines) else ""

    @cached_property
    def lines_of_rows(self) -> pd.DataFrame:
        """The host's lines during each row of a run on processors (host_account.lines); else empty.

        time_ns is per step and leaves out the cost of recording. Its sum is at most the row's time, as part of a row may be in
        no line.
        """
        if not self.facts or not self.on_host or self.program:
            return pd.DataFrame()
        return host_account.lines(self.trace, self.rows)

    @cached_property
    def recurrent(self) -> frozenset[str]:
        """Layers that are one PyTorch operator for all steps of a recurrence, on the host: torch.compile skips nn.GRU."""
        operators = self.trace.operators
        if not self.on_host:
            return frozenset()
        return frozenset(operators["layer"][operators["name"].isin(_RECURRENT).to_numpy(bool)].dropna().astype(str))

    @cached_property
    def waiting_calls(self) -> pd.DataFrame:
        """The calls within the measured steps that wait for the device; see attribution.calls.waits."""
        calls = self.inside_steps(self.trace.calls)
        return calls[api.waits(calls, self.trace.copies)] if len(calls) else calls

    @property
    def framework(self) -> str:
        """The framework; empty if unknown."""
        return str(self.facts.get("framework") or self.trace.info.get("framework") or self._framework_of_kernels)

    @cached_property
    def _framework_of_kernels(self) -> str:
        """The framework of totals of kernels, as their names tell it; empty if they do not, or of a small part only."""
        if self.timeline:
            return ""
        native = self.rows["name"].astype("string").str.contains(_OF_PYTORCH).fillna(False).to_numpy(bool)
        return "pytorch" if self.rows["time_ns"][native].sum() > _NOTICEABLE * self.step_ns else ""

    @property
    def kinds(self) -> list[str]:
        """The keys of remedies that fit, most specific first; "" fits any program."""
        name = self.framework
        family, _, backend = name.partition("-")
        names = [one for one in dict.fromkeys((name, family, backend)) if one]
        if "tensorflow" in names and self._is_version_1():
            names.insert(names.index("tensorflow"), "tensorflow 1")
        compiled = [f"{one}, compiled" for one in names] if is_compiled(self.trace) or self._is_compiled() else []
        eager = [f"{one}, eager" for one in names] if self.setting("execution") == "eager" else []
        on_host = [f"{one}, on the host" for one in names] if self.on_host else []
        tool = str((self.trace.info.get("source") or {}).get("tool"))
        device = "rocm" if self.device == ALL and tool.startswith(_ROCPROF) else self.device
        elsewhere = "" if device.startswith(_USUAL) else _ELSEWHERE
        place = next((words for prefix, words in _PLACES.items() if device.startswith(prefix)), elsewhere)
        compiled = [*(f"{one}, {place}" for one in compiled if place), *compiled]
        on_device = [f"{one}, {place}" for one in names if place]
        return [*([VLLM] if self._is_vllm else []), *compiled, *eager, *on_host, *on_device, *names, *filter(None, [place]), ""]

    @cached_property
    def _is_vllm(self) -> bool:
        """Whether vLLM runs the model, as names of its operators, ranges, functions or kernels show."""
        trace = self.trace
        tables = [table["name"] for table in (trace.operators, trace.ranges, trace.kernels)]
        names = [pd.Series(column.unique()).astype("string") for column in [*tables, trace.host_lines["file"]]]
        return bool(pd.concat(names).str.contains(_OF_VLLM, na=False).any())

    def _is_compiled(self) -> bool:
        """Whether the framework reported that it compiles the program; for MXNet, that it runs its blocks as graphs."""
        return str(self.setting("execution") or "").startswith(("compiled", "hybridized"))

    def _is_version_1(self) -> bool:
        """Whether this is TensorFlow 1, whose programs run a graph by session.run."""
        version = (self.trace.info.get("versions") or {}).get("tensorflow") or ""
        of_sessions = (self.trace.info.get("source") or {}).get("format") in ("tensorflow-timeline", "tfprof")
        return of_sessions or str(version).startswith("1.")

    @property
    def on_host(self) -> bool:
        """Whether the host's processors compute."""
        return self.device == "cpu"

    @property
    def cores(self) -> int | None:
        """How many cores the program may use; None if not recorded."""
        found = (self.facts.get("machine") or {}).get("allowed_threads")
        return int(found) if found else None

    def setting(self, name: str) -> Any:
        """Return a setting that the framework reported; None if it did not."""
        return (self.facts.get("settings") or {}).get(name)

    def kernels(self, kinds_: Collection[str] | None = None) -> pd.DataFrame:
        """Return the rows of kernels that compute, or only those of these kinds."""
        if self._known_of is not self.rows:
            self._known, self._known_of = {}, self.rows
        key = None if kinds_ is None else frozenset(kinds_)
        if key not in self._known:  # dozens of rules ask for the same ones
            rows = self.rows[(self.rows["part"] == COMPUTE).to_numpy(bool)]
            self._known[key] = rows if key is None else rows[rows["kind"].isin(list(key)).to_numpy(bool)]
        return self._known[key].copy(deep=False)

    def idle(self, causes: Collection[str]) -> pd.DataFrame:
        """Return the rows without computing that have one of these causes."""
        return self.rows[((self.rows["part"] == IDLE) & self.rows["cause"].isin(list(causes))).to_numpy(bool)]

    def part(self, name: str) -> pd.DataFrame:
        """Return the rows of one part (device_account.PARTS)."""
        return self.rows[(self.rows["part"] == name).to_numpy(bool)]

    def timed_copies(self, operation: str) -> pd.DataFrame:
        """Return the device's copies of this direction in the measured steps, from a timeline."""
        copies = self.trace.copies
        mine = ((copies["operation"] == operation).fillna(False) & copies["start_ns"].notna()).to_numpy(bool)
        copies = copies[mine & on_device(copies, self.device)]
        return copies[device_steps.measured(self.trace, copies)]

    def inside_steps(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the events of a table that begin within the measured steps; all of them if nothing marks steps."""
        steps = self.trace.steps[~self.trace.steps["warmup"]]
        if steps.empty or table.empty:
            return table
        at = table["start_ns"].to_numpy(np.int64, na_value=-1)
        first, last = (steps.sort_values("start_ns")[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
        return table[intervals.containing(at, first, last) >= 0]


def read(path: Path, request: Request | None = None) -> Subject:
    """Return the subject of the recording at a path; raise EvidenceError if it cannot be read or holds nothing to advise on."""
    name = archives.named(str(path))
    path = archives.folder(path)
    kind = kinds.kind_of(path)
    if kind in (Kind.IMPORT, Kind.CAPTURE):
        return of_trace(reading.read(path), name, request)
    return of_run(Run(path), name)


def of_trace(trace: Trace, path: str, request: Request | None = None) -> Subject:
    """Return a capture as a subject."""
    request = request or Request()
    trace = finding_steps.windowed(trace, request)
    if len(trace.lines) and not trace.has_timeline() and trace.kernels.empty:
        rows, step_ns = host_account.of_lines(trace)
        return Subject(path, trace, rows, step_ns, "cpu", None, WHOLE, None, 0, timeline=False)
    if critical_device(trace) is None and not is_host_timed(trace) and trace.has_timeline():
        rows, step_ns = host_account.of_trace(trace)
        measured = trace.steps[~trace.steps["warmup"]]
        per = STEPS if len(measured) else WHOLE
        return Subject(path, trace, rows, step_ns, "cpu", None, per, None, len(measured), lengths=_lengths(measured))
    found = finding_steps.find(trace, request)
    trace = finding_steps.applied(trace, found)
    whole = is_host_timed(trace) or (trace.has_timeline() and critical_device(trace) is None)
    done = account(trace, ALL if whole else request.device, hiding=True)
    totals = done.basis not in ("steps", "window", KERNELS)
    result = Subject(
        path, trace, done.rows, done.step_ns, _place(trace, done.device) if totals else done.device,
        hardware_of(trace, done.device),
        STEPS if done.basis == "steps" else WHOLE, found.sentence() if found else None, len(done.lengths),
        waited_ns=done.waited_ns, timeline=done.basis in ("steps", "window"),
        recorded_ns=_extent(trace) if done.basis == KERNELS else None, certain=found is None or found.certain,
        lengths=done.lengths if done.basis == "steps" else done.lengths[:0],
        by_step=done.by_window if done.basis == "steps" else None,
    )  # fmt: skip
    if totals and not page_faults.of(trace).ns:  # else the time of the faults themselves is known
        result.migrations = trace.copies[moved_pages.within_kernels(trace)]
    if len(result.inside_steps(trace.calls)):  # waiting can explain no more idle time than the host waits
        waits = result.waiting_calls
        lasted = float((waits["end_ns"] - waits["start_ns"]).sum())
        result.waited_ns = min(result.waited_ns, round(lasted / max(result.count, 1)))
    return result


def _place(trace: Trace, device: str) -> str:
    """Return the device of totals: PyTorch calls a GPU of AMD cuda, too, but the calls of its API are HIP's."""
    calls = trace.totals["name"][(trace.totals["table"] == "calls").fillna(False).to_numpy(bool)].astype("string")
    return device.replace("cuda", "rocm") if calls.str.contains(_HIP).any() else device


def _extent(trace: Trace) -> int:
    """Return the time from the first to the last event of a recording in ns."""
    first, last = trace.extent() or (0, 0)
    return last - first


def _long_steps(passes: Sequence[PassData]) -> dict[str, int] | None:
    """Return how many of how many clean steps are much longer than the others, and their time and that of all, in ns; None if
    none are.

    The step is the median, which does not show them: a program that now and then does something else may spend most of its time
    there.
    """
    durations = np.concatenate([np.zeros(0, dtype=np.int64), *(_lengths(one.measured) for one in passes)])
    long = durations[_is_long(durations)]
    if not len(long):
        return None
    return {"count": len(long), "of": len(durations), "ns": int(long.sum()), "of_ns": int(durations.sum())}


def _spread(passes: Sequence[PassData], step_ns: float | None) -> bool:
    """Return whether long steps are in most windows, so that the median window includes them."""
    durations = np.concatenate([np.zeros(0, dtype=np.int64), *(_lengths(one.measured) for one in passes)])
    return bool(step_ns and len(durations) and step_ns > _APART * np.median(durations))


def _is_long(durations: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which steps are much longer than the others; none unless they take a large share of the total."""
    long = durations > _LONG_STEP * np.quantile(durations, 0.75) if len(durations) else np.zeros(0, dtype=bool)
    return np.asarray(long & (durations[long].sum() >= _MUCH * durations.sum()))


def _typical(trace: Trace) -> Trace:
    """Return a run's trace without steps that are much longer than the others: the clean step is a median, which does not show
    them.
    """
    measured = ~trace.steps["warmup"].to_numpy(bool)
    long = _is_long(_lengths(trace.steps[measured]))
    if not long.any():
        return trace
    aside = trace.steps["warmup"].to_numpy(bool, copy=True)
    aside[np.flatnonzero(measured)[long]] = True
    return replace(trace, steps=trace.steps.assign(warmup=aside))


def of_run(run: Run, path: str) -> Subject:
    """Return a run as a subject."""
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
    facts["clean_windows"] = windows = sum(int(one.measured["window"].nunique()) for one in passes)
    facts["spread"] = _spread(passes, run.clean_step_ns)
    facts["long_steps"] = None if queued or windows < MEDIAN or facts["spread"] else _long_steps(passes)
    facts["growth"] = None if queued else run.growth
    facts["changed"] = None if queued or facts["growth"] or not passes else changing.change(_lengths(passes[0].measured))
    if critical_device(trace) is not None:
        return _named(_without_recording(of_trace(trace, path), run, facts), run)
    if run.whole and not trace.has_timeline():
        return _named(_of_lines(trace, run, path), run)
    rows, step_ns = host_account.of_run(run, trace)
    facts["traced_step_ns"] = mean_step_ns(trace.steps[~trace.steps["warmup"]])
    steps = run.clean_steps()
    used = (steps["user_ns"] + steps["system_ns"]).mean() if len(steps) else None
    facts["clean"] = {name: float(steps[name].median()) for name in _COUNTED if steps[name].notna().any()}
    recorded = int((~trace.steps["warmup"]).sum())
    subject = Subject(
        path, trace, rows, step_ns, "cpu", None, STEPS, "marked while recording", recorded, facts,
        None if used is None or pd.isna(used) else float(used), foreign_cores=core_use.foreign_of_run(run),
        lengths=_lengths(steps, queued),
    )  # fmt: skip
    return _named(subject, run)


def _of_lines(trace: Trace, run: Run, path: str) -> Subject:
    """Return a whole program of which only lines were recorded: they divide the time of the unrecorded program."""
    subject = of_trace(trace, path)
    clean_ns = run.clean_step_ns
    if clean_ns:
        subject.rows["time_ns"] = intervals.apportion(subject.rows["time_ns"].to_numpy(float), clean_ns)
        subject.step_ns = clean_ns
    return subject


def _named(subject: Subject, run: Run) -> Subject:
    """Mark a program without steps as its own step."""
    if run.whole:
        subject.program, subject.per, subject.steps = True, WHOLE, None
    return subject


def _without_recording(subject: Subject, run: Run, facts: dict[str, Any]) -> Subject:
    """Scale a run's step on a device to the clean one: the cost of recording is taken out of the host's time.

    See explain.instrumentation. The device times its own work, which recording does not lengthen.
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
    """Return whether clean steps end before their work is done.

    Then the last one of a window waits for all of them, and no step has a time of its own. This holds if a framework returns
    before it has computed, and on a device whose own ends of steps were not recorded.
    """
    if critical_device(trace) is not None:
        return not any(one.report.get(device_ends.KEY) for one in passes)
    return any(name in run.framework.split("-") for name in _ASYNCHRONOUS)


def _lengths(steps: pd.DataFrame, queued: bool = False) -> npt.NDArray[np.int64]:
    """Return the lengths of steps in ns; for queued steps, the means of their windows."""
    return np.asarray(window_means(steps) if queued else steps["end_ns"] - steps["start_ns"]).astype(np.int64)


def _recorded(run: Run) -> tuple[Trace, str | None]:
    """Return the Trace of the kernels pass; without one, that of the layers pass and the reason."""
    try:
        return run.trace(), None
    except EvidenceError:
        layers = run.layers_trace()
        if layers is None:
            raise
        return layers, run.why_no_kernels()
