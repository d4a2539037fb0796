"""CNTK: ranges around its calls, its profiler's timeline of nodes with the graph they come from, and timed calls of MKL.

CNTK runs a whole minibatch in one call of its library, so Python ranges tell the call from what Python does around it, and
layers come from the nodes: with node timing on, the profiler writes begin and end of every node, forward and backward, and
the graph says to which layer a node belongs. CNTK keeps times of its own clock; they are tied to ours through the calls that
contain them.
"""

import functools
import glob
import gzip
import json
import os
import shutil
import tempfile

from kernelscope.tracer.inside import hooks, interpose
from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.hooks import cntk_graph, cntk_mkl

TIMELINE_FILE = "operators.cntk.json"
GRAPH_FILE = "graph.json"
CALLS_FILE = "calls.mkl.jsonl"
PROFILER_BYTES = 256 << 20  # address space for events; only what is written becomes resident
_PLAIN_BYTES = 200000  # larger files are compressed
# functions of CNTK's library that switch something on or off: the setting and what it is then; None: the argument
_DIAGNOSING = (
    ("enable_node_timing", "node_timing", True),
    ("disable_node_timing", "node_timing", False),
    ("enable_profiler", "profiler", True),
    ("disable_profiler", "profiler", False),
    ("stop_profiler", "profiler", False),
    ("set_computation_network_trace_level", "trace_level", None),
    ("set_checked_mode", "checked_mode", None),
)
_LAYERS, _KERNELS = "layers", "kernels"


def environment(pass_name):
    """Return the variables to set before CNTK is imported: MKL's own report where its calls cannot be timed."""
    return {"MKL_VERBOSE": "1"} if pass_name == _KERNELS and not interpose.supported() else {}


class Hooks(object):
    """What a pass records of CNTK; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.cntk = None
        self.roots = {}  # uid -> functions that were trained or evaluated
        self.trainers = []
        self.calls = cntk_mkl.Calls(lambda: self.recorder.in_step and self.folder is not None)
        self.timed_functions = []
        self.folder = None  # where CNTK's profiler writes, while it runs
        self.started = {}
        self.diagnosing = {}  # what was switched on that costs time: setting -> value

    def configure(self):
        """Set threads and device, and switch node timing on before any graph is built."""
        threads = self.spec.get("threads")
        if threads:
            os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
        import cntk

        self.cntk = cntk
        self._notice_diagnosing()
        if threads:
            cntk.cntk_py.set_max_num_cputhreads(threads)
        device = cntk.device.gpu(0) if self.spec["device"] == "cuda" else cntk.device.cpu()
        cntk.device.try_set_default_device(device)
        if self.spec["pass"] in (_LAYERS, _KERNELS):
            cntk.debugging.set_node_timing(True)
        if self.spec["pass"] == _KERNELS:
            self.timed_functions = self.calls.install()
            if not self.timed_functions:
                os.environ["MKL_VERBOSE"] = "1"  # read at MKL's first call, which is still to come

    def _notice_diagnosing(self):
        """Keep what is switched on to look into a network: CNTK has no way to ask for it."""
        library = self.cntk.cntk_py

        def noticing(name, setting, value):
            original = getattr(library, name)

            @functools.wraps(original)
            def call(*arguments):
                self.diagnosing[setting] = arguments[0] if value is None and arguments else value
                return original(*arguments)

            setattr(library, name, call)

        for name, setting, value in _DIAGNOSING:
            if hasattr(library, name):
                noticing(name, setting, value)

    def versions(self):
        """Return the versions of cntk, numpy and, where it says so, MKL."""
        import numpy

        found = {"cntk": self.cntk.__version__, "numpy": numpy.__version__}
        mkl = cntk_mkl.version()
        if mkl:
            found["mkl"] = mkl
        return found

    def attach_layers(self, program):
        """Open ranges around CNTK's calls; the nodes' layers come from the graph, when the run is over."""
        del program  # whatever is trained or evaluated is seen by the calls themselves
        cntk, push, pop = self.cntk, self.recorder.push, self.recorder.pop

        def ranged(owner, name, category, phase, label=None, before=None):
            original = getattr(owner, name)

            @functools.wraps(original)
            def call(*arguments, **keywords):
                if before is not None:
                    before(arguments[0])
                push(category, label or name, phase=phase)
                try:
                    return original(*arguments, **keywords)
                finally:
                    pop()

            setattr(owner, name, call)

        ranged(cntk.Trainer, "train_minibatch", "phase", "other", before=self.saw_trainer)
        ranged(cntk.ops.functions.Function, "eval", "phase", "other", before=self.saw_function)
        ranged(cntk.train.trainer, "sanitize_var_map", "data", "data", "arguments")
        ranged(cntk.ops.functions, "sanitize_var_map", "data", "data", "arguments")
        ranged(cntk.cntk_py.Trainer, "train_minibatch", "phase", "other", "cntk call")
        # what CNTK's own readers give goes another way
        ranged(cntk.cntk_py.Trainer, "train_minibatch_overload_for_minibatchdata", "phase", "other", "cntk call")
        ranged(cntk.cntk_py.Function, "_forward", "phase", "other", "cntk call")
        ranged(cntk.cntk_py.Function, "_backward", "phase", "other", "cntk call")
        return {
            "layers": "CNTK's profiler with node timing; nodes mapped to layers through the graph",
            "phases": "direction of each node and the profiler's ranges",
            "mkl": "timed calls" if self.timed_functions else "MKL_VERBOSE",
        }

    def saw_trainer(self, trainer):
        """Remember a trainer that is used."""
        if all(trainer is not known for known in self.trainers):
            self.trainers.append(trainer)
            self.roots[trainer.loss_function.uid] = trainer.loss_function

    def saw_function(self, function):
        """Remember a function that is evaluated."""
        self.roots.setdefault(function.uid, function)

    def settings(self):
        """Return the settings in force."""
        cntk = self.cntk
        return {
            "threads": cntk.cntk_py.get_max_num_cputhreads(),
            "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
            "cores": hooks.cores(),
            "device": str(cntk.device.use_default_device()),
            "precision": "float32",
            "layout": "NCHW",
            "execution": "graph",
            "unit_gain_default": bool(cntk.learners.default_unit_gain_value()),
            "node_timing": bool(self.diagnosing.get("node_timing", False)),
            "profiler": bool(self.diagnosing.get("profiler", False)),
            "trace_level": int(self.diagnosing.get("trace_level", 0)),
            "checked_mode": bool(self.diagnosing.get("checked_mode", False)),
            "deterministic_algorithms": bool(cntk.cntk_py.should_force_deterministic_algorithms()),
            "optimizers": [type(learner).__name__ for trainer in self.trainers for learner in trainer.parameter_learners],
        }

    def start_operators(self, program):
        """Start CNTK's profiler; the times around its start tell roughly where its clock begins."""
        del program
        self.folder = tempfile.mkdtemp(prefix="cntk-profiler-", dir=self.spec["folder"])
        synchronise = self.spec["pass"] == _KERNELS and self.spec["device"] == "cuda"
        before = now_ns()
        self.cntk.debugging.start_profiler(self.folder, synchronise, PROFILER_BYTES)
        self.started = {"before_ns": before, "after_ns": now_ns()}
        self.cntk.debugging.enable_profiler()

    def stop_operators(self):
        """Stop the profiler and write the timeline, the graph and the timed calls; return the files' names."""
        files = self.stop_profiler(cntk_graph.describe(list(self.roots.values())))
        if self.spec["pass"] == _KERNELS:
            for owner in self.trainers or self.roots.values():
                owner.print_node_timing()
        return files

    def stop_profiler(self, graph):
        """Stop the profiler and write the timeline, this graph and the timed calls; return the files' names."""
        self.cntk.debugging.stop_profiler()
        files = [self._keep_timeline(), self._write_graph(graph)]
        if self.timed_functions:
            files.append(self._write_calls())
        return [name for name in files if name]

    def _keep_timeline(self):
        found = sorted(glob.glob(os.path.join(self.folder, "*_detail_.json")))
        name = None
        if found:
            name = _compressible(TIMELINE_FILE, os.path.getsize(found[-1]))
            with open(found[-1], "rb") as source, _open(os.path.join(self.spec["folder"], name)) as target:
                shutil.copyfileobj(source, target)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = None
        return name

    def _write_graph(self, graph):
        graph.update(profiler=self.started, batch=self.spec.get("batch"))
        with open(os.path.join(self.spec["folder"], GRAPH_FILE), "w") as out:
            json.dump(graph, out, indent=1, sort_keys=True)
        return GRAPH_FILE

    def _write_calls(self):
        name = _compressible(CALLS_FILE, 300 * len(self.calls.rows))
        with _open(os.path.join(self.spec["folder"], name)) as out:
            self.calls.write(out)
        self.calls.rows = []
        return name


def _compressible(name, size):
    return name + ".gz" if size > _PLAIN_BYTES else name


def _open(path):
    """Open a file to write bytes into, compressed if its name says so; without a time stamp, so that equal input is equal."""
    return gzip.GzipFile(path, "wb", mtime=0) if path.endswith(".gz") else open(path, "wb")
