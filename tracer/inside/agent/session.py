"""All passes of one run, one after the other, into a run folder that any machine can analyse."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Sequence

from kernelscope.tracer.inside import ceilings, disclosure, plan
from kernelscope.tracer.inside.agent import machine, nvml
from kernelscope.tracer.inside.agent.child_process import ChildError, ChildProcess
from kernelscope.tracer.inside.agent.samples import SAMPLES_FILE, Sampler
from kernelscope.tracer.inside.run_record import RunRecord
from kernelscope.tracer.inside.scrubbing import Scrubber


class Session(object):
    """Runs the passes; run.json is on disk, marked incomplete, from the start.

    options: the options as run.json keeps them (see tracer.outside.options). version: kernelscope's. roots: where the agent's
    own code was unpacked. report: called with a line before each pass.
    """

    def __init__(
        self,
        framework: str,
        options: Dict[str, Any],
        folder: str,
        version: str,
        roots: Sequence[str],
        command: List[str],
        report: Callable[[str], None],
    ) -> None:
        self.options = options
        self.folder = folder
        self.roots = roots
        self.report = report
        self.variables = self._variables()
        record: Dict[str, Any] = {
            "kernelscope": version,
            "recorder": "agent",
            "label": framework,
            "framework": framework,
            "version": None,
            "python": sys.executable,
            "program": None,
            "options": options,
            "conditions": "steady" if options["steady"] else "as it comes",
            "machine": machine.describe(),
            "command": disclosure.command(command, options["full_paths"]),
            "variables": disclosure.recorded(self.variables, full_paths=options["full_paths"]),
        }
        self._scrubber = Scrubber(options["full_paths"], self.variables, command)
        self._run = RunRecord(folder, record, self._scrubber)
        self.record = self._run.record

    def _variables(self) -> Dict[str, str]:
        """Return the whole environment of a child."""
        options = self.options
        variables = plan.child_variables(os.environ, options["threads"], options["device"], options["steady"])
        theirs = os.environ.get("PYTHONPATH")
        variables["PYTHONPATH"] = os.pathsep.join(list(self.roots) + ([theirs] if theirs else []))
        return variables

    def run(self) -> None:
        """Run all passes; raise ChildError if one fails. However it ends, run.json says how far it got."""
        planned = plan.order(self.options["repeats"])
        name = planned[0][0]
        try:
            for done, (name, repeat) in enumerate(planned):
                self.report("[%d/%d] %s %d" % (done, len(planned), name, repeat))
                self._run_pass(name, repeat)
        except BaseException as error:
            reason = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            self.record["passes"].setdefault(name, {"folders": []}).update(status="failed", reason=reason)
            self.record["reason"] = reason
            self._run.write()
            raise
        self.record.update(complete=True, reason=None)
        self._run.write()  # before the ceilings: interrupting them loses nothing else
        self.report("[%d/%d] ceilings" % (len(planned), len(planned)))
        self.record.update(ceilings=self._ceilings())
        self._run.write()

    def _ceilings(self) -> Any:
        """Measure the device's ceilings; if that fails, return the reason in their place."""
        options = self.options
        about = {"framework": self.record["framework"], "device": options["device"], "threads": options["threads"]}
        found: Dict[str, Any] = {"schema": ceilings.SCHEMA, "source": "measured", "version": self.record["version"], "gpu": None}
        found.update(about, machine={name: self.record["machine"][name] for name in ceilings.MACHINE})
        folder = tempfile.mkdtemp(prefix="kernelscope-")
        spec, out = os.path.join(folder, "spec.json"), os.path.join(folder, "ceilings.json")
        try:
            with open(spec, "w") as file:
                json.dump(about, file)
            command = [sys.executable, "-m", "kernelscope.tracer.inside.ceilings", spec, out]
            with open(os.devnull, "r+b") as null:
                subprocess.check_call(
                    command, env=self.variables, cwd=folder, timeout=ceilings.TIMEOUT_S, stdin=null, stdout=null, stderr=null
                )  # fmt: skip
            with open(out) as file:
                found.update(json.load(file))
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            reason = "%s: %s" % (type(error).__name__, str(error).replace(folder, ""))
            found.update(copies=[], products=[], unavailable={"all": reason})
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return found

    def _run_pass(self, name: str, repeat: int) -> None:
        relative = "%s/%d" % (name, repeat)
        folder = os.path.join(self.folder, name, str(repeat))
        os.makedirs(folder)
        entry = self.record["passes"].setdefault(name, {"folders": []})
        entry["status"] = "running"
        entry["folders"].append(relative)
        sampler = Sampler([machine.CpuSource(), nvml.NvmlSource()], os.path.join(folder, SAMPLES_FILE))
        child = ChildProcess(self._spec(name), folder, self.variables, self.options["timeout_s"])
        try:
            child.answer()
            if name != "check":
                self._windows(name, child, sampler)
            child.finish()
        except BaseException:
            child.stop()
            self._scrubber.folder(folder)
            raise
        self._learn(folder)
        self._scrubber.folder(folder)
        entry["status"] = "complete"
        if name == "kernels":
            entry["collector"] = {"asked": self.options["collector"], "used": self.options["collector"], "reason": "asked for"}
        if name != "check":
            entry["sampling"] = sampler.describe()
        self._run.write()

    def _spec(self, name: str) -> Dict[str, Any]:
        options = self.options
        spec = {
            "framework": self.record["framework"],
            "label": self.record["label"],
            "pass": name,
            "program": None,
            "folder": ".",
        }
        spec.update({key: options[key] for key in ("network", "mode", "batch", "device", "seed", "threads", "warmup")})
        spec.update(
            batches=plan.HOST_BATCHES, dropout=name != "check", roots=[os.path.join(root, "kernelscope") for root in self.roots]
        )
        # the child runs in the pass's folder, where a relative path would lead elsewhere
        spec["data"] = os.path.abspath(options["data"]) if options["data"] else None
        if name == "kernels":
            framework = options["collector"] == "framework"
            spec.update(collector=options["collector"], collector_required=True, device_profiler=framework)
        return spec

    def _windows(self, name: str, child: Any, sampler: Any) -> None:
        child.tell(do="warmup")
        planned, measured_ns = plan.windows(self.options["steps"]), 0
        for window in itertools.count():
            steps = plan.window(planned, window, measured_ns, name, self.options["steady"])
            if not steps:
                return
            sampler.open(child.pid, window)
            try:
                measured_ns += sum(child.tell(do="window", window=window, steps=steps)["step_ns"])
            finally:
                sampler.close()

    def _learn(self, folder: str) -> None:
        """Enter into run.json what the child found out about the framework."""
        with open(os.path.join(folder, "child.json")) as file:
            report = json.load(file)
        for key in ("versions", "settings", "network"):
            self.record.setdefault(key, report.get(key))
        self.record["version"] = (report.get("versions") or {}).get(self.record["framework"], self.record["version"])
        self.record["unavailable"].update(report.get("unavailable", {}))


__all__ = ["ChildError", "Session"]
