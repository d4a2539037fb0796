"""cuDNN and cuBLAS called directly: a range around each library call; a collector records the kernels that they launch."""

import importlib
from typing import Any, Dict

from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.frameworks.workload import version_of
from kernelscope.tracer.inside.ranges import Recorder


class Hooks(Base):
    """What a pass records of a program on cuDNN."""

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.algorithms: Dict[Any, Any] = {}

    def configure(self) -> None:
        """Load the libraries; raise RuntimeError if the run's device is not a GPU."""
        if not self.on_gpu:
            raise RuntimeError("cudnn needs an NVIDIA GPU (--device cuda); onednn is its counterpart on a CPU")
        self.library = importlib.import_module("kernelscope.workloads.cudnn.cuda").Library()

    def versions(self) -> Dict[str, Any]:
        """Return the versions of cuDNN and numpy."""
        return {"cudnn": self.library.version(), "numpy": version_of("numpy")}

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results."""
        return {
            "execution": "calls of the library one by one",
            "default_dtype": "float32",
            "memory_format": "channels first",
            "tf32_cudnn": False,
            "tf32_matmul": False,
            "cudnn_benchmark": False,
            "convolution_algorithms": ", ".join("%s %d" % pair for pair in sorted(self.algorithms.items())) or None,
        }

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put a range around each library call and around the wait for the result; return how layers are found."""
        self.algorithms = program.library.algorithms
        ranged = self.recorder.ranged
        program.steps[:] = [(layer, ranged(execute, "layer", layer, "forward", layer)) for layer, execute in program.steps]
        self.ranged(program, "run", "phase", "call", "other")
        self.ranged(program.library, "fetch", "sync", "fetch", "other")
        return {"layers": "library calls, each under its layer's name", "phases": "the same"}
