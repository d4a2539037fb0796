"""The agent's own checks of a machine's GPU: what one interpreter can test where nothing can be installed.

Each check is a function that returns what it measured and what is wrong, or raises NotRun with the reason; one that fails never
stops the others. check.json holds all results and is complete after each check. The run folders beside it are analysed
elsewhere (``tests/tools/gpu/check.py --from DIR``); sums, layers and collectors are compared there.
"""

import functools
import importlib.util
import json
import os
import platform
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside import durable
from kernelscope.tracer.inside.agent import machine, nvml
from kernelscope.tracer.inside.disclosure import Hiding
from kernelscope.tracer.inside.frameworks import described

SCHEMA = "kernelscope/gpu-check/1"
FILE = "check.json"
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
COLLECTORS = ("framework", "cupti")
PERIODS_S = 3.0
SAMPLES = 20
SAMPLE_PAUSE_S = 0.1

_SEEN = "import json; from kernelscope.tracer.inside import cuda_devices; print(json.dumps(cuda_devices.seen()))"


class NotRun(Exception):
    """A check cannot be done here: one line that says why."""


class Checks(object):
    """All checks of one interpreter, into one folder.

    packed: the agent's file, which records runs. root: where it was unpacked. frameworks: the ones to check. report: called
    with one line for each check.
    """

    def __init__(
        self,
        folder: str,
        packed: str,
        root: str,
        frameworks: Sequence[str],
        version: str,
        steps: int,
        limit_s: float,
        report: Callable[[str], None],
    ) -> None:
        self.folder, self.packed, self.root, self.frameworks = folder, packed, root, frameworks
        self.steps, self.limit_s, self.report = steps, limit_s, report
        self.source = nvml.NvmlSource()
        self.results: List[Dict[str, Any]] = []
        self.machine = dict(machine.describe(), nvml=self.source.facts())
        self.versions = {"kernelscope": version, "python": platform.python_version()}

    def run(self) -> int:
        """Run all checks; return how many failed."""
        self._do("NVML fields", "agent", self.nvml_fields)
        self._do("NVML update periods", "agent", self.nvml_periods)
        self._do("NVML sampling", "agent", self.sampling)
        self._do("visible devices", "agent", self.visible_devices)
        self._do("CUPTI self-check", "agent", self.cupti_check)
        for framework in self.frameworks:
            for collector in COLLECTORS:
                name = "%s, %s" % (framework, collector)
                self._do("record", name, functools.partial(self.record, framework, collector))
        self._do("fault: no visible device", "agent", self.no_visible_device)
        return sum(result["outcome"] == FAILED for result in self.results)

    def _do(self, check: str, subject: str, function: Callable[[], Tuple[Dict[str, Any], List[str]]]) -> None:
        began = time.monotonic()
        measured: Dict[str, Any] = {}
        reasons: List[str] = []
        try:
            measured, reasons = function()
            outcome = FAILED if reasons else PASSED
        except NotRun as error:
            outcome, reasons = NOT_RUN, [str(error)]
        except Exception as error:
            outcome, reasons = FAILED, ["%s: %s" % (type(error).__name__, error)]
        row = {"check": check, "subject": subject, "outcome": outcome, "measured": measured, "reasons": reasons}
        self.results.append(dict(row, seconds=round(time.monotonic() - began, 1)))
        self.report("%s: %s: %s%s" % (check, subject, outcome, ": " + reasons[0] if reasons else ""))
        self._write()

    def _write(self) -> None:
        path = os.path.join(self.folder, FILE)
        created = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        content = {"schema": SCHEMA, "created": created, "machine": self.machine, "versions": self.versions}
        durable.write_text(path, json.dumps(Hiding().of(dict(content, results=self.results)), indent=1))

    def _need_gpu(self) -> None:
        if self.source.unavailable:
            raise NotRun("no GPU (%s)" % self.source.unavailable)

    def _command(self, command: List[str], variables: Optional[Dict[str, str]] = None) -> Tuple[int, str, str]:
        """Return (exit status, stdout, stderr) of a command; kill it, with all that it started, when its time is up."""
        environment = dict(os.environ, PYTHONPATH=self.root, PYTHONDONTWRITEBYTECODE="1")
        environment.update(variables or {})
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=self.folder,
            universal_newlines=True, start_new_session=True,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            raise RuntimeError("no end within %g s" % self.limit_s) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return process.returncode, out, err

    def nvml_fields(self) -> Tuple[Dict[str, Any], List[str]]:
        """Check that power and memory are offered; report the rest."""
        self._need_gpu()
        facts = self.source.facts()
        measured, wrong = {"driver": facts["driver"], "cuda": facts["cuda"]}, []
        for gpu in facts["gpus"]:
            for key in ("name", "uuid", "pci", "compute_capability", "memory_bytes", "mig", "power", "offered", "not_offered"):
                measured["%s %s" % (gpu["device"], key)] = gpu.get(key)
            needed = [name for name in ("gpu_power_w", "gpu_memory_bytes") if name in gpu["not_offered"]]
            wrong += ["%s does not offer %s" % (gpu["device"], name) for name in needed]
        return measured, wrong

    def nvml_periods(self) -> Tuple[Dict[str, Any], List[str]]:
        """Measure the median time between changes of power and of the energy counter, queried as fast as possible."""
        self._need_gpu()
        measured: Dict[str, Any] = {}
        wrong = []
        for found in self.source.update_periods(PERIODS_S):
            measured.update(("%s %s" % (found["device"], key), found[key]) for key in found if key != "device")
            if found["gpu_power_w_ns"] is None:
                wrong.append("%s: power changed too rarely in %g s" % (found["device"], PERIODS_S))
        return measured, wrong

    def sampling(self) -> Tuple[Dict[str, Any], List[str]]:
        """Sample for two seconds and report the range of each metric."""
        self._need_gpu()
        seen: Dict[Any, Any] = {}
        for _ in range(SAMPLES):
            for metric, value, _, device in self.source.sample(None):
                seen.setdefault("%s %s" % (device, metric), []).append(value)
            time.sleep(SAMPLE_PAUSE_S)
        measured = {name: [min(values), max(values)] for name, values in seen.items()}
        energy = [name for name in measured if name.endswith("gpu_energy_j") and measured[name][0] > measured[name][1]]
        return measured, ["%s went backwards" % name for name in energy] + ([] if seen else ["nothing was sampled"])

    def visible_devices(self) -> Tuple[Dict[str, Any], List[str]]:
        """Check that CUDA shows a process what CUDA_VISIBLE_DEVICES names, by NVML's UUIDs."""
        self._need_gpu()
        first = self.source.facts()["gpus"][0]
        bare = first["uuid"].lower().replace("gpu-", "", 1)
        everything, wrong = self._shown({}), []
        measured = {"shown by default": everything}
        if first["mig"]:
            return measured, [] if everything else ["CUDA shows no MIG instance of a divided GPU"]
        if bare not in everything:
            wrong.append("NVML's GPU 0 (%s) is not among the devices that CUDA shows" % first["uuid"])
        for asked, expected in ((first["uuid"], [bare]), ("-1", [])):
            measured["shown for " + asked] = shown = self._shown({"CUDA_VISIBLE_DEVICES": asked})
            if shown != expected:
                wrong.append("CUDA_VISIBLE_DEVICES=%s shows %s" % (asked, shown))
        return measured, wrong

    def _shown(self, variables: Dict[str, str]) -> List[Any]:
        status, out, err = self._command([sys.executable, "-c", _SEEN], variables)
        if status:
            raise RuntimeError((err.strip().splitlines() or ["exit status %d" % status])[-1])
        return [device["uuid"] for device in json.loads(out.splitlines()[-1])]

    def cupti_check(self) -> Tuple[Dict[str, Any], List[str]]:
        """Check that CUPTI recorded what was launched (see cupti_check)."""
        self._need_gpu()
        _need_cupti()
        command = [sys.executable, "-m", "kernelscope.tracer.inside.cupti", "--check", os.path.join(self.folder, "cupti-check")]
        status, out, err = self._command(command)
        measured = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line)
        return measured, [] if not status else [text for text in (out.strip(), err.strip()) if text] or ["status %d" % status]

    def record(self, framework: str, collector: str) -> Tuple[Dict[str, Any], List[str]]:
        """Record lenet; the folder is checked where it is analysed."""
        self._need_gpu()
        missing = [name for name in described(framework).imports if importlib.util.find_spec(name) is None]
        if missing:
            raise NotRun("this interpreter has no module %s" % missing[0])
        if collector == "cupti":
            _need_cupti()
        folder = os.path.join("runs", "%s-%s" % (framework, collector))
        command = [sys.executable, self.packed, "run", "lenet", "-f", framework, "--device", "cuda", "--collector", collector]
        command += ["--steps", str(self.steps), "--repeats", "1", "-o", folder]
        status, _, err = self._command(command + (["--mode", "infer"] if framework == "cudnn" else []))
        measured = {"folder": folder, "exit status": status}
        return measured, [] if not status else [_last(err)]

    def no_visible_device(self) -> Tuple[Dict[str, Any], List[str]]:
        """Check that a run on a GPU that sees none fails with one line and leaves a readable folder."""
        self._need_gpu()
        there = [name for name in self.frameworks if all(importlib.util.find_spec(m) for m in described(name).imports)]
        if not there:
            raise NotRun("this interpreter has no framework")
        folder = os.path.join("runs", "no-visible-device")
        command = [sys.executable, self.packed, "run", "lenet", "-f", there[0], "--device", "cuda", "--steps", "5", "-o", folder]
        status, _, err = self._command(command, {"CUDA_VISIBLE_DEVICES": "-1"})
        with open(os.path.join(self.folder, folder, "run.json")) as file:
            record = json.load(file)
        wrong = [] if status else ["it ran although it sees no GPU"]
        wrong += ["a traceback instead of a message"] if "Traceback" in err else []
        wrong += ["run.json says that it is complete"] if record["complete"] else []
        return {"framework": there[0], "exit status": status, "message": _last(err)}, wrong


def _need_cupti() -> None:
    if importlib.util.find_spec("cupti") is None:
        raise NotRun("this interpreter has no package cupti (pip install cupti-python)")


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
