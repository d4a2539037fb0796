"""One pass of one run, inside the framework's interpreter: ``python -m kernelscope.tracer.inside.child SPEC.json``.

The parent sends commands through a pipe, one JSON object per line: {"do": "warmup"}, {"do": "window", "steps": n, "window": i},
{"do": "replay", "layer": name, "steps": n, "window": i}, {"do": "finish"}. The child answers each with one line. Between
windows it sleeps in a read, so other children run undisturbed. If the parent goes away, the read ends, and so does the child.
"""

import importlib
import importlib.util
import itertools
import json
import os
import platform
import sys
import time
import traceback
from typing import IO, Any, Callable, Dict, List, Optional

from kernelscope.tracer.inside import cuda_devices, frameworks, heap, limits, lines, memory, nvtx, steady, streams, threads
from kernelscope.tracer.inside.changes import MODULES
from kernelscope.tracer.inside.changes import apply as change
from kernelscope.tracer.inside.choices import Options
from kernelscope.tracer.inside.clock import anchor, now_ns
from kernelscope.tracer.inside.frameworks.workload import CannotReplay
from kernelscope.tracer.inside.plan import WARMUP_S
from kernelscope.tracer.inside.profiling import machine_use
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder
from kernelscope.tracer.inside.remedies import remedied

CHECK_STEPS = 3  # how many training losses the fairness check compares
NOT_SUPPORTED = "not supported"  # in a ValueError's message: the program cannot do this, but nothing is broken


class Child(object):
    """The state of one pass: the program, the recorder and what the framework's hooks collect."""

    def __init__(self, spec: Dict[str, Any]) -> None:
        self.folder = os.path.abspath(spec["folder"])
        self.spec = dict(spec, folder=self.folder, data=spec.get("data"))
        if spec.get("program"):
            path = os.path.abspath(os.path.join(self.folder, spec["program"]))
            self.spec.update(program=path, roots=spec["roots"] + [os.path.dirname(path)])
        self.pass_name = spec["pass"]
        self.collector = spec.get("collector")  # what records the kernels pass: framework, nsys, nvprof or cupti
        self.report = {"pass": self.pass_name, "python": platform.python_version(), "anchors": []}
        self.hooks: Any = None
        self.program: Any = None
        self.recorder: Any = None
        self.batches: Any = None
        self.line_profiler: Any = None
        self.tracing = False
        self.cupti: Any = None
        self.uses: List[Any] = []  # machine_use.reading before and after each window
        self.replayed: Any = (None, None)  # the layer replayed last, and the function that runs it

    def build(self) -> None:
        """Import the framework, build the program with the canonical weights and attach what this pass records."""
        make_hooks = frameworks.hooks(self.spec["framework"])
        os.environ.update(make_hooks.environment(self.pass_name))
        marker_fd = None
        if self.pass_name == "kernels":
            marker_fd = streams.StreamCapture(self.folder).marker_fd
        traced = self.pass_name in ("layers", "kernels")
        self.recorder = Recorder(self.folder, layers=traced, nvtx=self._nvtx() if traced else None, marker_fd=marker_fd)
        self.report["anchors"].append(anchor())
        if self.collector == "cupti":
            self._start_cupti()
        self.hooks = make_hooks(self.spec, self.recorder)
        self.hooks.configure()
        self._change()
        networks = importlib.import_module("kernelscope.workloads.networks")
        data = importlib.import_module("kernelscope.workloads.data")
        network = networks.get(self.spec["network"])
        self.program = self._program(network)
        self.program.load(networks.initial_weights(network, self.spec["seed"]))
        loader = self.spec.get("loader")
        folder = None if loader == "records" else self.spec["data"]
        host_batches = data.batches(network, self.spec["batch"], self.spec["seed"], self.spec["batches"], folder)
        if loader is None:
            self.batches = self.program.stream(itertools.cycle(self.program.prepare(host_batches)))
        else:
            self.batches = self._loaded(data, network)
        self.report["network"] = networks.as_dict(network)
        self.report["versions"] = self.hooks.versions()
        if traced:
            self.report["methods"] = dict(self.hooks.attach_layers(self.program), **self._parts())
        if self.pass_name == "lines":
            self._profile_lines()
        if self.pass_name == "check":
            self._check(host_batches)
        self.report["settings"] = self.hooks.settings()

    def _change(self) -> None:
        """Apply the requested changes to the frameworks imported so far, and report what they changed."""
        met: List[List[str]] = []
        for module in MODULES:
            if module in sys.modules:
                change(module, self.spec.get("changes", ()), Patches(), lambda name, what: met.append([name, what]))
        self.report["changed"] = met

    def _program(self, network: Any) -> Any:
        """Return the framework's program of a network; raise ValueError if there is none with these options."""
        framework, devices = self.spec["framework"], self.spec.get("devices", 1)
        if self.spec["batch"] % devices:
            raise ValueError("--batch %d: not divisible by --devices %d; choose a multiple" % (self.spec["batch"], devices))
        if self.spec.get("device") == "cuda" and devices > 1:
            _check_gpus(devices)
        make_program = program_class(framework, self.spec.get("program"), devices)
        options = Options(self.spec)
        try:
            program = make_program(network, options)
        except (KeyError, ImportError) as error:
            # the program's table of builders lacks the network, or the network has no module of its own
            own = "kernelscope.workloads.%s.%s" % (family(framework), network.name)
            if error.args != (network.name,) and getattr(error, "name", None) != own:
                raise
            raise ValueError("%s: network %s is %s" % (framework, network.name, NOT_SUPPORTED)) from error
        if options.ignored():
            raise ValueError("%s: %s is %s" % (framework, options.ignored()[0], NOT_SUPPORTED))
        return program

    def _others(self) -> List[int]:
        """Return the ids of the other processes that share a step with this one."""
        return getattr(self.program, "processes", list)()

    def _parts(self) -> Dict[str, str]:
        """Return which part of a step is recorded if several processes share it; empty otherwise."""
        others = len(self._others())
        return {"processes": "only rank 0 of %d" % (1 + others)} if others else {}

    def _loaded(self, data: Any, network: Any) -> Any:
        """Return an iterator that reads each batch from disk when a step asks for it; raise ValueError if not supported."""
        framework, folder, batch = self.spec["framework"], self.spec["data"], self.spec["batch"]
        if self.spec["loader"] == "files":
            read = data.from_files(network, batch, folder)
            return self.program.stream(one for batch in read for one in self.program.prepare([batch]))
        name = "kernelscope.workloads.%s.records" % family(framework)
        if importlib.util.find_spec(name) is None:
            raise ValueError("%s: loading records is %s" % (framework, NOT_SUPPORTED))
        return iter(importlib.import_module(name).batches(self.program, folder, batch))

    def _nvtx(self) -> Any:
        """Return the NVTX emitter if a tool listens; if one should but no library can be loaded, report that."""
        wanted = self.collector in ("nsys", "nvprof")
        found = nvtx.load(wanted)
        if wanted and found is None:
            reason = "libnvtx3interop.so cannot be loaded; set KERNELSCOPE_NVTX_LIBRARY to its path"
            self.report.setdefault("unavailable", {})["NVTX ranges"] = reason
        return found

    def _start_cupti(self) -> None:
        """Start CUPTI before the framework's first CUDA call; if it is not available, fail or let the framework record."""
        from kernelscope.tracer.inside import cupti

        try:
            self.cupti = cupti.Cupti(self.folder)
            self.cupti.start()
            self.recorder.correlator = self.cupti
        except cupti.Unavailable as error:
            self.cupti = None
            if self.spec.get("collector_required"):
                raise RuntimeError("--collector cupti: %s" % error) from error
            self.spec["device_profiler"] = True
            self.report["collector"] = {"used": "framework", "reason": str(error)}

    def _profile_lines(self) -> None:
        """Set up line_profiler; if the user's interpreter does not have it, report that and go on."""
        try:
            self.line_profiler = lines.profiler(self.program.functions())
        except ImportError as error:
            reason = "%s; install line_profiler into %s" % (error, os.path.basename(sys.executable))
            self.report.setdefault("unavailable", {})["lines"] = reason

    def _check(self, host_batches: Any) -> None:
        """Record what the fairness checks compare: parameters, shapes, outputs and the first losses."""
        images = host_batches[0][0]
        check = {
            "parameters": self.program.parameters(),
            "layer_shapes": self.program.layer_shapes(images),
            "outputs": [[float(value) for value in row] for row in self.program.outputs(images)],
            "lines_of_code": self._lines_of_code(),
        }
        if self.spec["mode"] == "train":
            self.program.train(itertools.islice(self.batches, CHECK_STEPS))
            check["losses"] = [float(loss) for loss in self.program.losses]
        with open(os.path.join(self.folder, "check.json"), "w") as out:
            json.dump(check, out)

    def _lines_of_code(self) -> Optional[int]:
        """Return how many lines the program takes for this network and mode; None if its source cannot be read."""
        networks, code = (importlib.import_module("kernelscope.workloads." + name) for name in ("networks", "lines"))
        try:
            return code.count(self.program, self.spec["mode"], self.spec["network"], networks.NETWORKS)
        except (OSError, SyntaxError, ValueError):
            return None

    def loop(self, count: int, warmup: bool = False) -> None:
        """Run `count` steps of the workload's own loop."""
        run = self.program.train if self.spec["mode"] == "train" else self.program.infer
        run(self.recorder.steps(self.batches, count, warmup))

    def warm_up(self) -> Dict[str, Any]:
        """Run steps until their times settle (see steady), or a limit is reached; then start recording operators."""
        times: List[int] = []
        minimum, start = self.spec["warmup"], time.monotonic()
        limit, seconds = max(minimum, steady.LIMIT if minimum else 0), self.spec.get("warmup_s", WARMUP_S)
        while not steady.settled(times, minimum) and len(times) < limit and time.monotonic() - start < seconds:
            left_s = seconds - (time.monotonic() - start)
            self.loop(min(steady.group(times, minimum, left_s), limit - len(times)), warmup=True)
            times = self.recorder.step_times()
        self.report["warmup"] = {"steps": len(times), "settled": steady.settled(times, minimum)}
        self.recorder.flush()
        if self.recorder.layers and not self.tracing:
            heap.touch()
            if self.pass_name in self.hooks.TRACED:
                self.hooks.start_operators(self.program)
                getattr(self.program, "record", lambda folder: False)(self.folder)
            self.tracing = True
        return {"event": "warm", "steps": len(times), "settled": self.report["warmup"]["settled"]}

    def window(self, index: int, count: int) -> Dict[str, Any]:
        """Run one window of `count` steps and write what it recorded."""
        self.recorder.window = index
        self.report["anchors"].append(anchor())
        if self.line_profiler is not None:
            self.line_profiler.enable_by_count()
        before = machine_use.reading()
        self.loop(count)
        self.uses.append((before, machine_use.reading()))
        if self.line_profiler is not None:
            self.line_profiler.disable_by_count()
        times = self.recorder.step_times()
        self.recorder.flush()
        if self.cupti is not None:
            self.cupti.flush()
        return {"event": "window", "window": index, "step_ns": times}

    def replay(self, layer: str, index: int, count: int) -> Dict[str, Any]:
        """Run one layer alone `count` times, on the values of an ordinary step; if that is not possible, answer why."""
        try:
            if self.replayed[0] != layer:
                self.replayed = (None, None)  # first, to free what it holds
                self.replayed = (layer, self._replayer(layer))
        except CannotReplay as error:
            return {"event": "cannot replay", "reason": str(error)}
        times = [now_ns()]
        for _ in range(count):
            self.replayed[1]()
            times.append(now_ns())
        lengths = [end - start for start, end in zip(times, times[1:])]
        return {"event": "replay", "window": index, "start_ns": times[0], "end_ns": times[-1], "step_ns": lengths}

    def _replayer(self, layer: str) -> Callable[[], Any]:
        """Return a function that runs this layer alone; raise CannotReplay if that is not possible."""
        self.recorder.window = None  # the step that is captured belongs to no window
        made = self.hooks.replayer(self.program, layer, lambda: self.loop(1, warmup=True))
        self.recorder.flush()
        return made

    def finish(self) -> Dict[str, Any]:
        """Stop recording and write what is left."""
        self.report["anchors"].append(anchor())
        if self.tracing:
            self.report["threads"] = threads.names()
            self.report["operator_files"] = self.hooks.stop_operators() if self.pass_name in self.hooks.TRACED else []
            if self.pass_name in self.hooks.TRACED:
                self.report["rank_files"] = getattr(self.program, "recorded", list)()
        if self.cupti is not None:
            self.report["cupti"] = self.cupti.stop()
        if self.line_profiler is not None:
            lines.save(self.line_profiler, self.folder, self.spec["roots"])
        if self.recorder.nvtx is not None:
            self.report["nvtx_emitted"] = {"count": self.recorder.nvtx.emitted, "names": self.recorder.nvtx.names}
        self.report["settings"] = self.hooks.settings()  # again: a program may change them, and some are known only now
        self.report["losses"] = [float(loss) for loss in self.program.losses[-5:]]
        others = self._others()
        self.report["memory"] = memory.resident(["self"] + others)
        self.report["processes"] = 1 + len(others)
        if not others:
            self.report["foreign_cores"] = machine_use.foreign_cores(*machine_use.summed(self.uses))
        if self.pass_name == "clean":
            self.report["lines_of_code"] = self._lines_of_code()
        if self.spec.get("device") == "cuda":
            self.report["gpus"] = cuda_devices.seen()
        self.write_report()
        return {"event": "finished"}

    def write_report(self) -> None:
        """Write child.json: versions, settings, methods and clock anchors of this pass."""
        with open(os.path.join(self.folder, "child.json"), "w") as out:
            json.dump(self.report, out, indent=1, sort_keys=True)


def family(framework: str) -> str:
    """Return the name of a framework's folder of modules."""
    return frameworks.described(framework).family


def program_class(framework: str, path: Optional[str], devices: int = 1) -> Any:
    """Return the class Program of the file at `path`; without a path, the workload's own for this framework.

    A class with DEVICES = True splits a step among several devices itself. Otherwise the workload may have a second class for
    that, in the module `parallel` beside `program`. Raises ValueError if there is neither; a program may give the reason as
    ONE_DEVICE.
    """
    package = "kernelscope.workloads.%s" % family(framework)
    found = _own_program(path) if path else importlib.import_module(package + ".program").Program
    if devices == 1 or getattr(found, "DEVICES", False):
        return found
    if not path and importlib.util.find_spec(package + ".parallel"):
        return importlib.import_module(package + ".parallel").Program
    reason = "Program of %s does not set DEVICES = True" % os.path.basename(path) if path else getattr(found, "ONE_DEVICE", None)
    said = "%s: a step on %d devices is %s" % (framework, devices, NOT_SUPPORTED)
    raise ValueError("%s: %s" % (said, reason) if reason else said)


def _own_program(path: str) -> Any:
    """Return the class Program of a user's file."""
    name = os.path.splitext(os.path.basename(path))[0]
    found: Any = importlib.util.spec_from_file_location("variant_" + name, path)
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    try:
        found.loader.exec_module(module)
    except ImportError as error:
        raise RuntimeError("%s: import failed: %s" % (os.path.basename(path), error)) from error
    if not hasattr(module, "Program"):
        raise RuntimeError("%s: defines no class Program" % os.path.basename(path))
    return module.Program


def _check_gpus(devices: int) -> None:
    """Raise ValueError if fewer GPUs are visible than are asked for."""
    visible = len(cuda_devices.seen())
    if visible < devices:
        remedy = "name fewer, or see CUDA_VISIBLE_DEVICES and `kernelscope doctor`"
        are = "%d GPU%s visible" % (visible, " is" if visible == 1 else "s are")
        raise ValueError("--devices %d is %s: %s; %s" % (devices, NOT_SUPPORTED, are, remedy))


def _serve(child: Child, commands: IO[str], answer: Callable[[Dict[str, Any]], None]) -> None:
    """Answer commands until one says to finish or the parent goes away."""
    for line in iter(commands.readline, ""):
        command = json.loads(line)
        if command["do"] == "warmup":
            answer(child.warm_up())
        elif command["do"] == "window":
            answer(child.window(command["window"], command["steps"]))
        elif command["do"] == "replay":
            answer(child.replay(command["layer"], command["window"], command["steps"]))
        else:
            answer(child.finish())
            return


def main(path: str) -> int:
    """Run the pass that the file at `path` describes; return the process's exit status."""
    with open(path) as file:
        spec = json.load(file)
    if spec.get("collector") not in ("nsys", "nvprof"):  # they start the child and may end before it
        limits.end_with_parent()
    if spec.get("memory_bytes"):
        limits.memory(spec["memory_bytes"])
    commands = os.fdopen(spec["commands_fd"], "r")
    answers = os.fdopen(spec["answers_fd"], "w")
    if "umask" in spec:
        os.umask(spec["umask"])  # nsys sets it to 0, which would let everybody write to the run folder

    def answer(message: Dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    child = Child(spec)
    try:
        child.build()
        child.write_report()
        answer({"event": "ready", "pid": os.getpid()})
        _serve(child, commands, answer)
    except ImportError as error:
        traceback.print_exc()
        answer({"event": "error", "kind": "import", "message": str(error)})
        return 4
    except Exception as error:
        # whatever goes wrong in a user's framework: tell the parent, and keep the traceback in the log
        traceback.print_exc()
        message = "%s: %s" % (type(error).__name__, error)
        unsupported = isinstance(error, ValueError) and NOT_SUPPORTED in str(error)
        kind, message = ("unsupported", str(error)) if unsupported else ("failed", remedied(message))
        answer({"event": "error", "kind": kind, "message": message})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
