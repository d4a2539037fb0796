"""oneDNN called directly: a range around the execution of each primitive, and the lines that oneDNN prints for it."""

import importlib
import os
from typing import Any, Dict

from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.frameworks.workload import cores, version_of
from kernelscope.tracer.inside.ranges import Recorder


class Hooks(Base):
    """What a pass records of a program on oneDNN."""

    KERNELS_VARIABLES = {"ONEDNN_VERBOSE": "1", "ONEDNN_VERBOSE_TIMESTAMP": "1"}  # print each call, with wall-clock time

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.version: Any = None

    def configure(self) -> None:
        """Set the number of threads, for SYCL and OpenMP builds alike, and load the library."""
        if self.spec.get("threads"):
            for name in ("DPCPP_CPU_NUM_CUS", "OMP_NUM_THREADS"):
                os.environ[name] = str(self.spec["threads"])
        self.version = importlib.import_module("kernelscope.workloads.onednn.dnnl").Library().version()

    def versions(self) -> Dict[str, Any]:
        """Return the versions of oneDNN and numpy."""
        version = self.version
        return {
            "onednn": "%d.%d.%d" % (version.major, version.minor, version.patch),
            "numpy": version_of("numpy"),
        }

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results."""
        runtimes = {1: "sequential", 2: "OpenMP", 4: "TBB", 8: "thread pool", 512: "SYCL"}
        return {
            "threads": int(self.spec.get("threads") or 0) or cores(),
            "cores": cores(),
            "execution": "primitives one by one",
            "runtime": runtimes.get(self.version.cpu_runtime, str(self.version.cpu_runtime)),
            "default_dtype": "float32",
        }

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put a range around the execution of each primitive and around the wait for them; return how layers are found."""
        ranged = self.recorder.ranged
        program.steps[:] = [(layer, ranged(execute, "layer", layer, "forward", layer)) for layer, execute in program.steps]
        self.ranged(program, "run", "phase", "call", "other")
        self.ranged(program.library, "wait", "sync", "wait", "other")
        return {
            "layers": "the execution of each primitive, under its layer's name",
            "phases": "the same; time between primitives belongs to the library call",
        }
