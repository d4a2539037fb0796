"""cuDNN and cuBLAS called directly: a range around each call of the libraries; a collector sees what they launch."""

import importlib

from kernelscope.tracer.inside import hooks


def environment(pass_name):
    """There is nothing to set."""
    return {}


class Hooks(object):
    """What a pass records of a program on cuDNN; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.library = None
        self.algorithms = {}

    def configure(self):
        """Load the libraries; raise RuntimeError where there is no GPU for them."""
        if not str(self.spec.get("device") or "cpu").startswith("cuda"):
            raise RuntimeError("cudnn needs an NVIDIA GPU (--device cuda); onednn is the same level on a processor")
        self.library = importlib.import_module("kernelscope.workloads.cudnn.cuda").Library()

    def versions(self):
        """Return the versions of cuDNN and numpy."""
        return {"cudnn": self.library.version(), "numpy": hooks.version_of("numpy")}

    def settings(self):
        """Return the settings in force that can make a difference to speed or results."""
        return {
            "execution": "calls of the library one by one",
            "default_dtype": "float32",
            "memory_format": "channels first",
            "tf32_cudnn": False,
            "tf32_matmul": False,
            "cudnn_benchmark": False,
            "convolution_algorithms": ", ".join("%s %d" % pair for pair in sorted(self.algorithms.items())) or None,
        }

    def attach_layers(self, program):
        """Put a range around each call of a library and around the waiting for the result; return how layers are found."""
        self.algorithms = program.library.algorithms
        ranged = self.recorder.ranged
        program.steps[:] = [(layer, ranged(execute, "layer", layer, "forward", layer)) for layer, execute in program.steps]
        program.run = ranged(program.run, "phase", "call", "other")
        program.library.fetch = ranged(program.library.fetch, "sync", "fetch", "other")
        return {"layers": "calls of the libraries, each under its layer's name", "phases": "the same"}

    def start_operators(self, program):
        """There is no profiler of a framework."""

    def stop_operators(self):
        """Return no files."""
        return []
