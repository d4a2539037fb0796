"""A run folder as analyses see it: its record, the steps of every pass, and the Trace of its kernels pass."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
import pyarrow as pa

from kernelscope.analysis.accounting.growth import Growth, growth
from kernelscope.analysis.accounting.statistics import mean_step_ns, median_step_ns
from kernelscope.analysis.attribution import device_steps
from kernelscope.analysis.attribution.frameworks import Clock, Context, Evidence, device, keras_loops, placed_ranges
from kernelscope.analysis.attribution.host_lines import timeline
from kernelscope.analysis.attribution.lines import statements
from kernelscope.analysis.attribution.steps import markers
from kernelscope.analysis.attribution.steps.model import critical_device
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import parquet_files
from kernelscope.analysis.recordings import archives, device_ends, kinds, schema
from kernelscope.analysis.recordings.kinds import Kind, kind_of
from kernelscope.analysis.trace import Trace, conform, storage, thread_names
from kernelscope.analysis.trace.records import check_schema, read_object, read_table
from kernelscope.tracer.outside import locks

KERAS_2 = ("keras-theano", "keras-cntk", "keras-mxnet")
SCHEMA_NAME, SCHEMA_VERSION = "kernelscope/run", 1
WHOLE = "whole"  # the mode of a program without steps, which was recorded as one step
NOT_ENDED = "the run did not come to its end"  # what run.json says until the run ends
_MUCH = 0.2  # of the clean steps: least compile time that is reported if nothing else is known
UNSEARCHED = ", and its output was not searched for secrets; run it again with --force, and do not share this folder"
CACHE_VERSION = 31  # part of the cache's key: raise it when a reader's result for the same files changes


@dataclass(frozen=True)
class PassData:
    """One repeat of one pass: its folder, its child's report, and its steps (including warm-up)."""

    folder: Path
    report: dict[str, Any]
    steps: pd.DataFrame

    @property
    def measured(self) -> pd.DataFrame:
        """The steps after warm-up."""
        return self.steps[~self.steps["warmup"]]

    def samples(self) -> pd.DataFrame:
        """Return what was sampled from outside during this pass."""
        path = self.folder / "samples.parquet"
        if path.exists():
            try:
                return conform("samples", parquet_files.frame(path))
            except (OSError, ValueError, pa.ArrowException) as error:
                raise EvidenceError(f"{path}: is damaged ({str(error).splitlines()[0]}); record the run again") from error
        path = self.folder / "samples.jsonl"  # written by the portable agent, which has no Parquet library
        return read_table(path, "samples") if path.exists() else conform("samples", pd.DataFrame())


# What readers expect in run.json, and any command of ours writes: a file that somebody changed may lack it
_UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(("network", "machine", "conditions", "created", "kernelscope", "command", "version", "python")), "passes": {},
}  # fmt: skip
_UNKNOWN_OPTIONS: dict[str, Any] = dict.fromkeys(("network", "mode", "batch", "device", "threads", "steps", "warmup"))


class Run:
    """A run folder or an archive of one; opening it reads only run.json. Raises EvidenceError if it is not readable here."""

    def __init__(self, path: str | Path):
        self.path = path = archives.folder(Path(path))
        file = path / kinds.RUN
        kind = kind_of(path)
        if kind is not Kind.RUN:
            raise EvidenceError(f"{path}: {_no_run(path, kind)}")
        record = read_object(file)
        check_schema(file, str(record.get("schema")), SCHEMA_NAME, SCHEMA_VERSION, "name a folder that `run` or `compare` wrote")
        record = schema.checked(file, record, schema.RunRecord)
        self.record = {**_UNKNOWN, **record, "options": {**_UNKNOWN_OPTIONS, **record.get("options", {})}}
        self.framework = str(self.record["framework"])
        self.name = str(self.record.get("label") or self.framework)  # distinguishes it from others in a comparison
        self.complete = bool(self.record.get("complete"))
        self._passes: dict[str, list[PassData]] = {}
        self._traces: dict[str, Trace] = {}

    def passes(self, name: str) -> list[PassData]:
        """Return the completed repeats of a pass, in order; an empty list if there is none."""
        if name not in self._passes:
            entry = self.record.get("passes", {}).get(name, {})
            folders = [self.path / self._inside(relative) for relative in entry.get("folders", [])]
            done = [folder for folder in folders if (folder / "child.json").is_file()]
            self._passes[name] = [
                PassData(folder, report, device_ends.placed(_steps(folder / "steps.jsonl", report), report))
                for folder in done
                for report in (_report(folder / "child.json"),)
            ]
        return [data for data in self._passes[name] if not data.measured.empty or name == "check"]

    def _inside(self, relative: str) -> PurePosixPath:
        """Return a pass's folder as run.json names it; what is read or cached must be inside the run folder."""
        path = PurePosixPath(str(relative))
        if path.is_absolute() or ".." in path.parts or not path.name:
            raise EvidenceError(f"{self.path / 'run.json'}: {relative!r} is not a folder of a pass; record it again")
        return path

    def check(self) -> dict[str, Any] | None:
        """Return what the fairness check compares; None if the check did not run."""
        for data in self.passes("check"):
            if (data.folder / "check.json").is_file():
                stated = {name: data.report.get(name, {}) for name in ("settings", "versions")}
                stated["options"] = {name: self.record.get("options", {}).get(name) for name in ("precision", "device")}
                return {**read_object(data.folder / "check.json"), **stated}
        return None

    def ranks(self) -> list[Path]:
        """Return the recordings of the processes of a run on several devices, in order of their ranks; empty for other runs.

        On CPUs, all of them are torch.profiler's, including rank 0's, so that ranks are compared by the same evidence.
        """
        data = self.kernels_pass()
        others = [data.folder / Path(str(name)).name for name in data.report.get("rank_files") or []]
        if not others:
            return []
        own = [data.folder / Path(str(name)).name for name in data.report.get("operator_files") or []]
        first = own if self.record["options"].get("device", "cpu") == "cpu" else [self.path]
        return [path for path in [*first, *others] if path.exists()]

    def sources(self) -> tuple[str | None, dict[str, str]]:
        """Return the profiled program's own source files: the main one's path (None if unknown), and path -> text of each."""
        folder = self.path / "sources"
        if not (folder / "index.json").is_file():
            return None, {}
        index = read_object(folder / "index.json")
        result = {}
        for number, entry in enumerate(index.get("files") or []):
            file = folder / f"{number}.py"
            if isinstance(entry, dict) and entry.get("file") == file.name and file.is_file():
                result[str(entry.get("path"))] = file.read_text("utf8", "replace")
        main = index.get("main")
        if not isinstance(main, str):  # not every process knows its main file; it is the program that was started
            started = {PurePosixPath(str(word)).name for word in self.record.get("profiled") or []}
            main = next((path for path in result if PurePosixPath(path).name in started), None)
        return main, result

    @property
    def whole(self) -> bool:
        """Whether the program has no steps and was recorded as one (`profile --mode whole`)."""
        return bool(self.record["options"]["mode"] == WHOLE)

    def clean_steps(self) -> pd.DataFrame:
        """Return the measured steps of all repeats of the clean pass; an empty table if there is none."""
        measured = [data.measured for data in self.passes("clean")]
        return pd.concat(measured, ignore_index=True) if measured else conform("steps", pd.DataFrame())

    @property
    def clean_step_ns(self) -> int | None:
        """The clean step, which every command calls the step: the median of the clean windows; None without any."""
        repeats = [data.measured for data in self.passes("clean")]
        return median_step_ns(repeats) if repeats else None

    @cached_property
    def growth(self) -> Growth | None:
        """How the clean pass's steps get longer while the program runs; None if they do not."""
        ordered = [data.measured.sort_values("start_ns") for data in self.passes("clean")]
        return growth([(steps["end_ns"] - steps["start_ns"]).to_numpy("int64") for steps in ordered])

    def kernels_pass(self) -> PassData:
        """Return the repeat of the kernels pass whose mean step is closest to the clean pass's: the least disturbed one.

        Much of the noise is per process (for example, a heap that is freed and faulted in again), so one repeat can be in
        another state than the clean pass was. Raises EvidenceError if there is no repeat.
        """
        result = self.passes("kernels")
        if not result:
            raise EvidenceError(f"{self.path}: {self._clean_alone()}{self.why_no_kernels()}")
        clean = self.clean_step_ns
        if clean is None:
            return result[0]
        return min(result, key=lambda data: abs((mean_step_ns(data.measured) or 0) - clean))

    def why_no_kernels(self) -> str:
        """Return why there is no kernels pass, and what to do."""
        entry = self.record.get("passes", {}).get("kernels", {})
        reason = entry.get("reason") or self.record.get("reason") or "it was not recorded"
        reason = _not_ended(self.path) if reason == NOT_ENDED else reason
        return f"no kernels pass: {reason}{'' if ';' in reason else '; run it again'}"

    def _clean_alone(self) -> str:
        """Return a sentence about the clean step, if nothing else is known."""
        clean, count = self.clean_step_ns, sum(len(data.measured) for data in self.passes("clean"))
        typical = f"{(clean or 0) / 1e6:,.2f} ms"
        takes = f"the program takes {typical}" if self.whole else f"a step takes {typical} (the median of {count}){self._rate()}"
        known = f"{takes}{self._compiling()}; where its time goes is unknown: "
        return "" if clean is None else known

    def _rate(self) -> str:
        """Return how many samples a second that is, if the batch is known."""
        first, clean = next(iter(self.passes("clean")), None), self.clean_step_ns
        batch = first.report.get("batch") if first else None
        return f", {batch * 1e9 / clean:,.0f} samples/s at {batch}" if isinstance(batch, int) and batch and clean else ""

    def _compiling(self) -> str:
        """Return how long functions were recompiled during the clean steps, if that is a large share of them."""
        first = next(iter(self.passes("clean")), None)
        noted = (first.report.get("compiled") or {}) if first else {}
        ns, all_ns = noted.get("ns"), int((first.measured["end_ns"] - first.measured["start_ns"]).sum()) if first else 0
        if not isinstance(ns, int) or ns < _MUCH * all_ns or not noted.get("functions"):
            return ""
        return f"; functions were recompiled meanwhile, which took {ns / 1e9:,.2f} s"

    def trace(self) -> Trace:
        """Return the Trace of the kernels pass with the host lines of the lines pass; from the cache, if it is still valid.

        For a whole program without a kernels pass, return that of its lines only.
        """
        if self.whole and not self.passes("kernels") and (lines := self._lines_alone()) is not None:
            return lines
        return self._trace_of(self.kernels_pass())

    def _lines_alone(self) -> Trace | None:
        """Return the lines pass as a Trace; None without one. info["unavailable"]["kernels"]: why there are only lines."""
        reason = str(self.record.get("passes", {}).get("kernels", {}).get("reason") or "they were not recorded")
        trace = Trace(
            info={
                "framework": self.framework, "recorder": self.record.get("recorder"), "pass": "lines",
                "network_name": self.record["options"]["network"], "mode": self.record["options"]["mode"],
                "conditions": self.record["conditions"], "clean_step_ns": self.clean_step_ns,
                "unavailable": {"kernels": reason},
            },
        )  # fmt: skip
        self._add_lines(trace)
        return trace if len(trace.lines) else None

    def traces(self) -> list[Trace]:
        """Return the Traces of all repeats of the kernels pass, in order; raise EvidenceError if there is none."""
        self.kernels_pass()
        return [self._trace_of(data) for data in self.passes("kernels")]

    def layers_trace(self) -> Trace | None:
        """Return the steps and ranges of the layers pass as a Trace; None without one, or if its ranges were left out for cost.

        info["left_out"]: layers whose ranges were left out because they cost too much (see explain.instrumentation.holding).
        """
        for data in self.passes("layers"):
            left_out = data.report.get("left_out") or {}
            if (data.folder / "ranges.jsonl").is_file() and left_out.get("phases", True):
                ranges = placed_ranges(read_table(data.folder / "ranges.jsonl", "ranges"))
                return Trace(steps=data.steps, ranges=ranges, info={"left_out": left_out.get("layers", {})})
        return None

    def _trace_of(self, data: PassData) -> Trace:
        """Return the Trace of a repeat, made only once."""
        if data.folder.name not in self._traces:
            self._traces[data.folder.name] = self._cached_trace(data)
        return self._traces[data.folder.name]

    def _cached_trace(self, data: PassData) -> Trace:
        cache = self.path / "trace" / data.folder.name
        key = self._content_key(data)
        trace = _from_cache(cache, key)
        if trace is None:
            trace = self._read_trace(data)
            trace.check()
            _to_cache(cache, key, trace)
        return trace

    def _content_key(self, data: PassData) -> str:
        digest = hashlib.sha256(f"{CACHE_VERSION}\n".encode())
        others = [p for name in ("lines", "clean") for p in self.path.glob(f"{name}/*/*")]
        for path in sorted(p for p in [*data.folder.iterdir(), *others] if p.is_file()):
            digest.update(f"{path.relative_to(self.path)}\n".encode())
            with path.open("rb") as file:  # collectors' reports are too large to read at once
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:24]

    def _read_trace(self, data: PassData) -> Trace:
        ranges = placed_ranges(read_table(data.folder / "ranges.jsonl", "ranges"))
        options = self.record["options"]
        clock = Clock.from_anchors(data.report["anchors"], data.folder)
        collector = self._collector()
        context = Context(
            data.steps,
            ranges,
            self.record["network"],
            options["mode"],
            data.report,
            clock,
            options.get("device", "cpu"),
            collector,
        )
        family = self.framework.partition("-")[0]  # keras for keras-torch
        family = "keras2" if self.framework in KERAS_2 else family
        package = "kernelscope.analysis.attribution.frameworks"
        own = importlib.util.find_spec(f"{package}.{family}")
        module = importlib.import_module(f"{package}.{family}" if own else f"{package}.marked")
        evidence = device.added(module.read(data.folder, context), data.folder, context)
        operators, kernels = (
            keras_loops.owned(conform(name, getattr(evidence, name)), ranges) for name in ("operators", "kernels")
        )
        # devices exchange the gradients of many layers together, during the backward of whichever is last
        kernels["layer"] = kernels["layer"].mask(kernels["kind"] == "communication")
        trace = Trace(
            steps=data.steps, ranges=_with(ranges, evidence.ranges), kernels=kernels,
            operators=operators, samples=data.samples(), host_lines=timeline(data.folder),
            info=self._info(data, evidence, collector), diagnostics=dict(evidence.diagnostics),
            **{name: conform(name, getattr(evidence, name)) for name in ("graphs", "copies", "syncs", "calls", "memory")},
        )  # fmt: skip
        device_steps.assign(trace)
        trace.diagnostics["steps with other kernels than most"] = _unlike_steps(trace.kernels, data.measured)
        if critical_device(trace) is not None:
            markers.set_aside_first(trace)
        self._add_lines(trace)
        return trace

    def _info(self, data: PassData, evidence: Evidence, collector: str | None) -> dict[str, Any]:
        """Return facts of the traced pass, those of its evidence included."""
        options = self.record["options"]
        info: dict[str, Any] = {
            "framework": self.framework,
            "recorder": self.record.get("recorder"),
            "network_name": options["network"],
            "mode": options["mode"],
            "batch": options["batch"],
            "batch_source": self.record.get("batch_source"),
            "device_count": options.get("devices", 1),
            "pass": "kernels",
            "conditions": self.record["conditions"],
            "clean_step_ns": self.clean_step_ns,
            "unavailable": {**self.record.get("unavailable", {}), **evidence.unavailable},
        }
        if distributed := self.record.get("distributed"):
            info["distributed"] = distributed
        if ranks := self.ranks():
            info["distributed"] = {"rank": 0, "world_size": len(ranks)}
        info |= evidence.info
        threads = thread_names.named((int(number), name) for number, name in data.report.get("threads", {}).items())
        info["threads"] = {**evidence.info.get("threads", {}), **threads}
        if collector:
            info["collector"] = collector
        if "devices" in evidence.info:
            info["devices"] = self._named(evidence.info["devices"])
        return info

    def _named(self, devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a capture's devices; those without a name, as in XPlane, get the name that NVML has for them."""
        names = {gpu["device"]: gpu["name"] for gpu in self.record.get("gpus") or []}
        return [{**one, "name": one.get("name") or names.get(one.get("device"))} for one in devices]

    def _collector(self) -> str | None:
        """Return what recorded the device's work in the kernels pass, according to the run."""
        used = self.record.get("passes", {}).get("kernels", {}).get("collector", {}).get("used")
        return str(used) if used else None

    def _add_lines(self, trace: Trace) -> None:
        for data in self.passes("lines"):
            if (data.folder / "lines.json").is_file():
                trace.lines = conform("lines", statements(data.folder))
                trace.info["lines_steps"] = len(data.measured)
                trace.info["lines_step_ns"] = mean_step_ns(data.measured)
                usual = "train" if self.record["options"]["mode"] == "train" else "infer"
                trace.info["lines_root"] = data.report.get("lines_root") or usual


def _steps(file: Path, report: dict[str, Any]) -> pd.DataFrame:
    """Return a pass's steps; raise EvidenceError if they end before they begin, or their number differs from the report's."""
    steps = read_table(file, "steps")
    wrong = int((steps["end_ns"] < steps["start_ns"]).sum())
    if wrong:
        raise EvidenceError(f"{file}: {wrong} of {len(steps)} steps end before they begin; record the run again")
    measured, found = report.get("measured"), int((~steps["warmup"]).sum())
    if isinstance(measured, int) and measured != found:
        had = f"has {found} measured steps instead of {measured}"
        raise EvidenceError(f"{file}: {had}; copy it again, or record the run again")
    return steps


def _report(file: Path) -> dict[str, Any]:
    """Return the report of a pass's process."""
    return schema.checked(file, read_object(file), schema.PassReport)


def _cut(path: Path) -> str:
    """Return a remark if a recording in the folder did not end, with the place of the previous one."""
    reasons = [read_object(file).get("reason") for file in path.glob(f"*/{kinds.RUN}")]
    return f"; {_not_ended(path)}" if NOT_ENDED in reasons else ""


def _not_ended(path: Path) -> str:
    """Return why the recording in a folder is incomplete, and what to do."""
    if any(map(locks.is_locked, (path, path.absolute().parent))):  # for a side or a rank, the parent folder is locked
        return f"it is still being recorded; wait until it ends, `kernelscope watch {path}` shows its progress"
    return f"{NOT_ENDED}{UNSEARCHED}{_before(path)}"


def _before(path: Path) -> str:
    """Return where the folder's previous recording is, if a new one was to replace it and did not end."""
    earlier = path.with_name(f".{path.name}.earlier")
    return f"; the previous recording is in {earlier}" if earlier.is_dir() else ""


def _no_run(path: Path, kind: Kind) -> str:
    """Return why a path is not a run folder, and what to name instead."""
    inside = ", ".join(sorted(file.parent.name for file in path.glob(f"*/{kinds.RUN}")))
    if kind is Kind.COMPARISON:
        return f"a comparison; name one of its run folders: {inside}"
    if kind is Kind.SWEEP:
        cells = sorted(file.parent.name for file in path.glob(f"cells/*/{kinds.RUN}"))
        return f"a sweep; name one of its cells, such as {path / 'cells' / (cells or ['KEY'])[0]}"
    if kind is Kind.IMPORT:
        return "an imported capture; captures are reported and broken down one at a time"
    if kind is Kind.JOB:
        return f"a job of several ranks; `kernelscope ranks {path}` analyses them, and each is a run: {inside}"
    if kind is Kind.RUNS:
        return f"holds run folders; name one of them: {inside}{_cut(path)}"
    if kind is Kind.SIDES:
        found = sorted(file.parent.relative_to(path) for file in path.glob(f"*/*/{kinds.RUN}"))
        return f"holds several recordings; name one of them, such as {path / found[0]}, or compare them with explain"
    return "not a run folder (no run.json); name a folder that `run` or `compare` wrote"


def _unlike_steps(kernels: pd.DataFrame, steps: pd.DataFrame) -> int:
    """Return how many measured steps ran other kernels than most steps: autotuning or compilation was still going on."""
    mine = kernels[kernels["step"].isin(steps["step"])]
    sets = mine.groupby("step")["name"].agg(lambda names: hash(frozenset(names)))
    return len(steps) - int(sets.value_counts().max()) if len(sets) else 0


def _with(ranges: pd.DataFrame, more: pd.DataFrame) -> pd.DataFrame:
    return conform("ranges", pd.concat([ranges, more], ignore_index=True)) if len(more) else ranges


def _from_cache(cache: Path, key: str) -> Trace | None:
    """Return the cached Trace if it was made from the same content; a damaged cache counts as none."""
    try:
        if storage.facts(cache).get("key") != key:
            return None
        trace = storage.load(cache)
        trace.check()
        return trace
    except EvidenceError:
        return None


def _to_cache(cache: Path, key: str, trace: Trace) -> None:
    """Write the cache; an unwritable folder is no reason to fail."""
    try:
        shutil.rmtree(cache, ignore_errors=True)
        storage.save(trace, cache, key=key)
    except OSError:
        shutil.rmtree(cache, ignore_errors=True)
