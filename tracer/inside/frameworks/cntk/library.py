"""The part shared by workloads and scripts: CNTK's versions and settings, its profiler's timeline of nodes, and MKL calls.

CNTK runs a whole minibatch in one call of its library, so Python ranges only separate that call from the Python around it.
Layers come from the nodes: with node timing on, the profiler writes the begin and end of every node, forward and backward, and
the graph gives each node's layer. CNTK's times are of its own clock; the calls that contain them tie them to ours.
"""

import glob
import gzip
import json
import shutil
import tempfile
from typing import Any, Dict, List, Optional

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.frameworks import mkl_calls
from kernelscope.tracer.inside.frameworks.workload import cores, versions_of
from kernelscope.tracer.inside.own import open, os
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

TIMELINE_FILE = "operators.cntk.json"
GRAPH_FILE = "graph.json"
CALLS_FILE = "calls.mkl.jsonl"
PROFILER_BYTES = 256 << 20  # address space for events; only what is written becomes resident
CALL = "cntk call"  # the range around a call of CNTK's library; it ties the timeline's events to our clock
_PLAIN_BYTES = 200000  # larger files are compressed


class Library(object):
    """CNTK as it was imported. recorder: tells whether a step is running; None between passes. trainers: those in use.

    diagnosing: setting -> value of the diagnostics that were switched on and cost time, as far as noticed.
    """

    def __init__(self, cntk: Any, recorder: Optional[Recorder] = None) -> None:
        self.cntk = cntk
        self.recorder = recorder
        self.trainers: List[Any] = []
        self.diagnosing: Dict[Any, Any] = {}
        self.calls = mkl_calls.Calls(lambda: self._folder is not None and self.recorder is not None and self.recorder.in_step)
        self.timed_functions: List[Any] = []
        self._folder: Any = None  # where CNTK's profiler writes, while it runs
        self._started: Dict[Any, Any] = {}

    def versions(self) -> Dict[str, Any]:
        """Return the versions of CNTK, numpy and, if it reports one, MKL."""
        found = versions_of("cntk", "numpy")
        mkl = mkl_calls.version()
        if mkl:
            found["mkl"] = mkl
        return found

    def settings(self) -> Dict[str, Any]:
        """Return the current settings."""
        cntk = self.cntk
        return {
            "threads": cntk.cntk_py.get_max_num_cputhreads(),
            "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
            "cores": cores(),
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

    def range_calls(self, patches: Patches, recorder: Recorder) -> None:
        """Put ranges around CNTK's calls: its Python functions, and within them the calls of its library."""
        cntk, library = self.cntk, self.cntk.cntk_py
        for owner, name, category, phase, label in (
            (cntk.Trainer, "train_minibatch", "phase", "other", "train_minibatch"),
            (cntk.ops.functions.Function, "eval", "phase", "other", "eval"),
            (cntk.train.trainer, "sanitize_var_map", "data", "data", "arguments"),
            (cntk.ops.functions, "sanitize_var_map", "data", "data", "arguments"),
            (library.Trainer, "train_minibatch", "phase", "other", CALL),
            (library.Trainer, "train_minibatch_overload_for_minibatchdata", "phase", "other", CALL),  # of CNTK's own readers
            (library.Function, "_forward", "phase", "other", CALL),
            (library.Function, "_backward", "phase", "other", CALL),
        ):
            if hasattr(owner, name):
                patches.wrap(owner, name, recorder.around(category, label, phase))

    def start_profiler(self, folder: str, synchronise: bool) -> None:
        """Start CNTK's profiler, and note the time before and after: roughly where its clock begins. synchronise: for a GPU."""
        self._folder = tempfile.mkdtemp(prefix="cntk-profiler-", dir=folder)
        before = now_ns()
        self.cntk.debugging.start_profiler(self._folder, synchronise, PROFILER_BYTES)
        self._started = {"before_ns": before, "after_ns": now_ns()}
        self.cntk.debugging.enable_profiler()

    def stop_profiler(self, folder: str, graph: Dict[str, Any], batch: Optional[int] = None) -> List[str]:
        """Stop the profiler and write the timeline, this graph and the timed calls; return the names of the written files."""
        self.cntk.debugging.stop_profiler()
        files = [self._keep_timeline(folder), self._write_graph(folder, dict(graph, batch=batch))]
        if self.timed_functions:
            files.append(self._write_calls(folder))
        return [name for name in files if name]

    def _keep_timeline(self, folder: str) -> Optional[str]:
        found = sorted(glob.glob(os.path.join(self._folder, "*_detail_.json")))
        name = None
        if found:
            name = _compressible(TIMELINE_FILE, os.path.getsize(found[-1]))
            with open(found[-1], "rb") as source, _open(os.path.join(folder, name)) as target:
                shutil.copyfileobj(source, target)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
        return name

    def _write_graph(self, folder: str, graph: Dict[str, Any]) -> str:
        graph["profiler"] = self._started
        with open(os.path.join(folder, GRAPH_FILE), "w") as out:
            json.dump(graph, out, indent=1, sort_keys=True)
        return GRAPH_FILE

    def _write_calls(self, folder: str) -> str:
        name = _compressible(CALLS_FILE, 300 * len(self.calls.rows))
        with _open(os.path.join(folder, name)) as out:
            self.calls.write(out)
        self.calls.rows = []
        return name


def _compressible(name: str, size: int) -> str:
    return name + ".gz" if size > _PLAIN_BYTES else name


def _open(path: str) -> Any:
    """Open a file for writing bytes; .gz is compressed, without a time stamp, so that equal input gives equal files."""
    return gzip.GzipFile(path, "wb", mtime=0) if path.endswith(".gz") else open(path, "wb")
