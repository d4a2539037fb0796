"""oneDNN called directly: a range around the execution of each primitive, and oneDNN's own lines of what it executed."""

import importlib
import os

from kernelscope.tracer.inside import hooks


def environment(pass_name):
    """Return the variables that make oneDNN print each call, with the wall clock's time of its start."""
    return {"ONEDNN_VERBOSE": "1", "ONEDNN_VERBOSE_TIMESTAMP": "1"} if pass_name == "kernels" else {}


class Hooks(object):
    """What a pass records of a program on oneDNN; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.version = None

    def configure(self):
        """Set the number of threads, for builds that compute through SYCL and through OpenMP, and load the library."""
        if self.spec.get("threads"):
            for name in ("DPCPP_CPU_NUM_CUS", "OMP_NUM_THREADS"):
                os.environ[name] = str(self.spec["threads"])
        self.version = importlib.import_module("kernelscope.workloads.onednn.dnnl").Library().version()

    def versions(self):
        """Return the versions of oneDNN and numpy."""
        version = self.version
        return {
            "onednn": "%d.%d.%d" % (version.major, version.minor, version.patch),
            "numpy": hooks.version_of("numpy"),
        }

    def settings(self):
        """Return the settings in force that can make a difference to speed or results."""
        runtimes = {1: "sequential", 2: "OpenMP", 4: "TBB", 8: "thread pool", 512: "SYCL"}
        return {
            "threads": int(self.spec.get("threads") or 0) or hooks.cores(),
            "cores": hooks.cores(),
            "execution": "primitives one by one",
            "runtime": runtimes.get(self.version.cpu_runtime, str(self.version.cpu_runtime)),
            "default_dtype": "float32",
        }

    def attach_layers(self, program):
        """Put a range around the execution of each primitive and around the waiting for them; return how layers are found."""
        ranged = self.recorder.ranged
        program.steps[:] = [(layer, ranged(execute, "layer", layer, "forward", layer)) for layer, execute in program.steps]
        program.run = ranged(program.run, "phase", "call", "other")
        program.library.wait = ranged(program.library.wait, "sync", "wait", "other")
        return {
            "layers": "executions of primitives, each under its layer's name",
            "phases": "the same; what is between them is the call of the library",
        }

    def start_operators(self, program):
        """There is nothing but oneDNN's lines."""

    def stop_operators(self):
        """Return no files: the lines are in the captured stream."""
        return []
