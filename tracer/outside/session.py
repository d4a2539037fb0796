"""A session: all sides of a comparison go through the passes together, in fresh processes, taking turns."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernelscope.tracer.inside import interrupts, plan, temporary
from kernelscope.tracer.inside.plan import HOST_BATCHES, PASSES, REPEATED
from kernelscope.tracer.inside.scrubbing import Scrubber
from kernelscope.tracer.outside import ceilings, collectors, conditions, energy, gpu, process_noise, run_folder, turns
from kernelscope.tracer.outside.collectors import Choice, ToolCollector
from kernelscope.tracer.outside.errors import ChildError, InputError
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.process import Child
from kernelscope.tracer.outside.run_folder import RunFolder
from kernelscope.tracer.outside.samplers.cpu import CpuSource
from kernelscope.tracer.outside.samplers.nvml import NvmlSource
from kernelscope.tracer.outside.samplers.sampler import Sampler
from kernelscope.tracer.outside.staging import stage
from kernelscope.tracer.outside.variants import Variant
from kernelscope.tracer.version import VERSION
from kernelscope.workloads import networks

_HOST_BYTES = 256 << 20  # for the batches that are cycled through: larger batches are fewer

Progress = Callable[[str, int, int], None]  # current activity, parts done, parts in total


@dataclass
class SessionSide:
    """One side of a session and its state. `failure`: why it dropped out, if it did; `failure_kind`: its ChildError.kind.

    choice: what records its kernels pass. recording: the profiler around its child, if any. verified: what such profilers
    recorded, by folder. measured_ns: the duration of this pass's steps so far.
    """

    variant: Variant
    folder: RunFolder
    choice: Choice
    failure: str | None = None
    failure_kind: str | None = None
    child: Child | None = None
    pass_folder: Path = field(default_factory=Path)
    recording: ToolCollector | None = None
    verified: dict[str, dict[str, Any]] = field(default_factory=dict)
    measured_ns: int = 0

    @property
    def label(self) -> str:
        """The side's label."""
        return self.variant.label


class Session:
    """Runs the passes for all sides. A side that fails drops out, with the reason in its run folder; the others go on.

    choices: each side's collector, if known already. energy_plan: how long the parts of the energy pass take. inherited:
    descriptors that stay open in the children. staged: a folder with already staged code. warnings: one line for each loss by a
    profiler.
    """

    def __init__(
        self,
        variants: list[Variant],
        options: RunOptions,
        folders: list[Path],
        command: list[str],
        choices: list[Choice] | None = None,
        energy_plan: energy.Plan | None = None,
        inherited: Sequence[int] = (),
        staged: Path | None = None,
    ):
        self.options = options
        self._inherited = inherited
        self._staged = staged
        self._energy_plan = energy_plan
        self.sides = []
        self.warnings: list[str] = []
        choices = choices or [collectors.chosen(options, variant) for variant in variants]
        for variant, folder, choice in zip(variants, folders, choices, strict=True):
            scrubber = Scrubber(options.full_paths, self._variables(variant), command)
            side = SessionSide(variant, RunFolder(folder, self._record(variant, command), scrubber), choice)
            side.folder.record["unavailable"].update((f"collector {name}", why) for name, why in choice.unavailable.items())
            if variant.program is not None:
                (folder / variant.program.name).write_bytes(variant.program.content)
            self.sides.append(side)
        self._energy = options.energy and self._can_measure_energy()

    def _can_measure_energy(self) -> bool:
        """Return whether energy can be measured here; if not, the run goes on without it and records why."""
        _, reason = energy.sources(self.options.device)
        if reason is not None:
            self.warnings.append(f"energy: not available: {reason}")
            for side in self.sides:
                side.folder.record["unavailable"][energy.NAME] = reason
        return reason is None

    def _record(self, variant: Variant, command: list[str]) -> dict[str, Any]:
        environment, program = variant.environment, variant.program
        return {
            "kernelscope": VERSION,
            "label": variant.label,
            "framework": environment.framework,
            "version": environment.version,
            "python": str(environment.python),
            "program": {"file": program.name, "sha256": program.sha256} if program is not None else None,
            "options": replace(self.options, threads=variant.threads(self.options.threads)).as_dict(),
            "conditions": "steady" if self.options.steady else "as it comes",
            "machine": conditions.machine(),
            "noise": process_noise.known(),
            "command": conditions.command(command, self.options.full_paths),
            "variables": conditions.recorded(self._variables(variant), variant.variables, self.options.full_paths),
        }

    def _variables(self, variant: Variant) -> dict[str, str]:
        """Return a child's whole environment."""
        options = self.options
        variables: dict[str, str] = plan.child_variables(
            os.environ, variant.threads(options.threads), options.device, options.steady
        )
        variables.update(variant.environment.variables)
        variables.update(variant.variables)
        return variables

    def run(self, progress: Progress) -> None:
        """Run all passes. On Ctrl-C or an error of ours, kill the children and record it in the run folders, then raise."""
        for label, done, total in self.passes():
            progress(label, done, total)

    def passes(self) -> Generator[tuple[str, int, int]]:
        """Run the passes one at a time, and yield Progress's arguments before each and at the end; others may run meanwhile.

        If all sides have dropped out, there are no further passes. Closing the iterator ends the session as Ctrl-C does.
        """
        planned = self._plan()
        with_ceilings = "kernels" in self.options.passes
        total = len(planned) + with_ceilings
        name = PASSES[0]
        try:
            with temporary.folder() as made:
                staged = self._staged or stage(Path(made))
                for done, (name, repeat) in enumerate(planned):
                    label = name if self._repeats(name) == 1 else f"{name} {repeat} of {self._repeats(name)}"
                    yield label, done, total
                    self._run_pass(name, repeat, staged)
                    if not self._alive():
                        break
            for side in self._alive():
                side.folder.finish()
        except BaseException as error:
            self._abandon(name, error)
            if isinstance(error, OSError):
                where = error.filename or self.sides[0].folder.path
                text = error.strerror or "files cannot be written"
                raise InputError(f"{name} pass: {where}: {text}; free some space, name another folder or set TMPDIR") from error
            raise
        if with_ceilings and self._alive():
            yield "ceilings of the device", len(planned), total
            self._add_ceilings()
        yield "done", total, total

    def _add_ceilings(self) -> None:
        """Add the ceilings to compare kernels with. The runs are complete before this, so stopping it loses nothing else."""
        for side in self._alive():
            found = ceilings.of(side.variant.environment, self.options.device, side.variant.threads(self.options.threads))
            run_folder.add(side.folder.path, "ceilings", found)

    def _plan(self) -> list[tuple[str, int]]:
        """Return the passes and their repeats in running order."""
        planned = plan.order(self.options.repeats, self.options.passes)
        return [*planned, *([(energy.NAME, 1)] if self._energy else [])]

    def _repeats(self, name: str) -> int:
        """Return how often a pass runs: the clean pass repeats for its interval, the kernels pass to choose the best repeat."""
        return self.options.repeats if name in REPEATED else 1

    def _alive(self) -> list[SessionSide]:
        return [side for side in self.sides if side.failure is None]

    def _abandon(self, name: str, error: BaseException) -> None:
        """Kill all children and mark the run folders, as far as the disk allows."""
        interrupted = isinstance(error, KeyboardInterrupt | GeneratorExit)
        reason = "interrupted" if interrupted else f"{type(error).__name__}: {error}"
        for side in self._alive():
            if side.child is not None:
                side.child.stop()
            try:
                side.folder.pass_failed(name, f"{name} pass: {reason}")
                if side.child is not None:
                    side.folder.scrub(side.pass_folder)
            except OSError:
                # the disk is full: the last good run.json says that the run is incomplete
                continue

    def _run_pass(self, name: str, repeat: int, staged: Path) -> None:
        with self._sampler(name) as sampler:
            for side in self._alive():
                self._guard(side, name, lambda side=side: self._start(side, name, repeat, staged))  # type: ignore[misc]
            for side in self._alive():
                self._guard(side, name, lambda side=side: self._ready(side))  # type: ignore[misc]
            if name == energy.NAME:
                for side in self._alive():
                    self._guard(side, name, lambda side=side: self._measure_energy(side, sampler))  # type: ignore[misc]
            elif name != "check":
                self._take_turns(name, sampler)
            for side in self._alive():
                self._guard(side, name, lambda side=side: self._finish(side, name, sampler))  # type: ignore[misc]

    def _sampler(self, name: str) -> Sampler:
        if name == energy.NAME:
            return Sampler(energy.sources(self.options.device)[0], energy.RATES_HZ[self.options.device])
        return Sampler([CpuSource(), NvmlSource()])

    def _measure_energy(self, side: SessionSide, sampler: Sampler) -> None:
        assert side.child is not None
        devices = self._gpus(side, {})
        gpu_index = devices[0].gpu.index if devices else None
        # the report exists since the child was ready, but is complete only after the pass
        network = json.loads((side.pass_folder / "child.json").read_text(encoding="utf8"))["network"]
        layers = energy.heaviest(network)
        energy.Measurement(side.child, sampler, side.pass_folder, gpu_index, self._energy_plan, layers).record()

    def _gpus(self, side: SessionSide, report: dict[str, Any]) -> list[gpu.Seen]:
        """Return the GPUs that the side's child sees: by its own report, if it has one."""
        known = gpu.find().devices
        return gpu.reported(report.get("gpus", []), known) or gpu.visible(self._variables(side.variant), known)

    def _guard(self, side: SessionSide, name: str, action: Callable[[], None]) -> None:
        """Do something with a side's child; if the child fails, the side drops out."""
        try:
            action()
        except ChildError as error:
            side.failure, side.failure_kind = str(error), error.kind
            if side.child is not None:
                side.child.stop()
            side.folder.pass_failed(name, str(error))
            if side.child is not None:
                side.folder.scrub(side.pass_folder)

    def _start(self, side: SessionSide, name: str, repeat: int, staged: Path) -> None:
        folder = side.folder.pass_folder(name, repeat)
        options, variant = self.options, side.variant
        data = str(Path(options.data).resolve()) if options.data else None
        spec = {
            "framework": variant.environment.framework, "label": variant.label, "network": options.network,
            "mode": options.mode, "pass": name, "program": f"../../{variant.program.name}" if variant.program else None,
            "folder": ".", "batch": options.batch, "device": options.device, "seed": options.seed,
            "threads": variant.threads(options.threads), "batches": _host_batches(options), "warmup": options.warmup,
            "warmup_s": options.warmup_s, "memory_bytes": options.memory_bytes, "devices": options.devices,
            "precision": options.precision, "layout": options.layout, "autotune": options.autotune,
            "dropout": name != "check", "data": data, "loader": options.loader, "roots": [str(staged / "kernelscope")],
            "changes": list(variant.changes),
        }  # fmt: skip
        variables = self._variables(variant)
        if name == "kernels":
            spec |= self._collect(side, folder)
        if side.recording is not None:
            variables.update(side.recording.variables())
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(staged), variant.variables.get("PYTHONPATH"))))
        side.pass_folder = folder
        with interrupts.deferred():  # otherwise a child that was just started could be left behind
            side.child = Child(
            variant.environment.python, spec, folder, variables, options.timeout_s, collector=side.recording,
            inherited=self._inherited,
        )  # fmt: skip

    def _collect(self, side: SessionSide, folder: Path) -> dict[str, Any]:
        """Prepare what records the kernels pass; return its part of the child's specification."""
        choice = side.choice
        side.folder.record["passes"]["kernels"]["collector"] = choice.as_dict()
        if choice.tool is not None:
            side.recording = ToolCollector(choice.tool, folder, self.options.device, self.options.keep_reports)
        return {
            "collector": choice.used,
            "collector_required": choice.asked != collectors.AUTO,
            "device_profiler": choice.used == "framework",
        }

    def _ready(self, side: SessionSide) -> None:
        assert side.child is not None
        side.child.answer()

    def _take_turns(self, name: str, sampler: Sampler) -> None:
        """Warm every child up while the others sleep, then let them run their windows in turn."""
        for side in self._alive():
            self._guard(side, name, lambda side=side: self._turn(side, None, 0, sampler))  # type: ignore[misc]
        planned = self.options.windows()
        for number in itertools.count():
            alive = self._alive()
            mean_ns = sum(side.measured_ns for side in alive) / max(len(alive), 1)
            steps = plan.window(planned, number, mean_ns, name, self.options.steady)
            if not steps or not alive:
                return
            for index in turns.order(len(self.sides), number):
                side = self.sides[index]
                if side in alive:
                    self._guard(side, name, partial(self._turn, side, number, steps, sampler))

    def _turn(self, side: SessionSide, window: int | None, steps: int, sampler: Sampler) -> None:
        child = side.child
        assert child is not None
        if window is None:
            child.tell(do="warmup")
            side.measured_ns = 0
        else:
            sampler.open(child.pid, window)
            try:
                side.measured_ns += sum(child.tell(do="window", window=window, steps=steps)["step_ns"])
            finally:
                sampler.close()
        child.wait_until_asleep()

    def _finish(self, side: SessionSide, name: str, sampler: Sampler) -> None:
        child = side.child
        assert child is not None
        child.finish()
        report = json.loads((side.pass_folder / "child.json").read_text(encoding="utf8"))
        devices = self._gpus(side, report)
        names = {seen.gpu.index: f"cuda:{seen.number}" for seen in devices}
        sampler.write(child.pid, side.pass_folder / "samples.parquet", names)
        side.child = None
        record = side.folder.record
        if devices:
            record["gpus"] = [seen.as_dict() for seen in devices]
        for key in ("versions", "settings", "network"):
            record.setdefault(key, report.get(key))
        record["unavailable"].update(report.get("unavailable", {}))
        if side.recording is not None:
            self._verify(side, side.recording, report)
        if "collector" in report:  # the child had to use another one than requested
            used = record["passes"][name]["collector"]["used"]
            record["passes"][name]["collector"].update(report["collector"])
            record["unavailable"][f"collector {used}"] = report["collector"]["reason"]
        side.folder.scrub(side.pass_folder)
        side.folder.pass_done(name, sampler.describe() if name != "check" else None)

    def _verify(self, side: SessionSide, recording: ToolCollector, report: dict[str, Any]) -> None:
        """Finish a profiler's recording of the child, and record whether everything requested is there."""
        emitted = report.get("nvtx_emitted", {}).get("names", {})
        result = recording.finish(emitted, report.get("versions", {}), self.options.timeout_s)
        side.recording = None
        where = str(side.pass_folder.relative_to(side.folder.path))
        side.verified[where] = result
        record = side.folder.record
        record["passes"]["kernels"]["verified"] = collectors.merged(side.verified)
        wrong = collectors.problems(result)
        if wrong:
            record["unavailable"][f"collector {side.choice.used}"] = f"{where}: {wrong[0]}"
        self.warnings += [f"{side.label}, {where}: {line}" for line in (*wrong, *result.get("warnings", ()))]


def _host_batches(options: RunOptions) -> int:
    """Return how many distinct batches are cycled through: fewer if they are large, at least two."""
    shape: tuple[int, ...] = networks.get(options.network).input_shape
    return max(2, min(HOST_BATCHES, _HOST_BYTES // (options.batch * math.prod(shape) * networks.FLOAT_BYTES)))
