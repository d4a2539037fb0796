"""Hooks for a framework without a module here: its program marks the functions that compute layers and phases.

Each call of a marked function is an operator, named by the layer's type and phase; numpy's OpenBLAS calls inside it are timed
one by one.
"""

from typing import Any, Dict, List, Optional

from kernelscope.tracer.inside.frameworks import openblas, timed
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.frameworks.workload import cores, versions_of
from kernelscope.tracer.inside.ranges import Recorder


class Hooks(Base):
    """What a pass records of a marked program."""

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.types: Dict[str, str] = {}  # layer -> its type
        self.operators = timed.Operators(recorder)
        self.blas = openblas.Calls(recorder)

    def configure(self) -> None:
        """Set the number of threads. The program imports its framework itself."""
        openblas.limit_threads(self.spec.get("threads"))

    def versions(self) -> Dict[str, Any]:
        """Return the versions of the framework, numpy and OpenBLAS, as far as known."""
        return dict(versions_of(self.spec["framework"], "numpy"), openblas=openblas.facts().get("version"))

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Let the program mark its functions; return how layers and phases are found."""
        self.types = {layer.name: layer.type for layer in program.network.layers}
        program.mark(self.marked)
        return dict.fromkeys(("layers", "phases"), "functions that the program marks")

    def marked(self, owner: Any, name: str, layer: Optional[str], phase: str) -> None:
        """Record each call of an object's function as this layer's work, or as the phase's alone if layer is None."""
        if self.kernels:
            operator = phase if layer is None else "%s %s" % (self.types[layer], phase)
            setattr(owner, name, self.operators.timed(getattr(owner, name), operator, phase, layer=layer))
        self.ranged(owner, name, "phase" if layer is None else "layer", layer or phase, phase, layer)

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results."""
        return {"threads": openblas.facts().get("threads") or self.spec.get("threads"), "cores": cores()}

    def start_operators(self, program: Any) -> None:
        """Start recording operators and OpenBLAS calls."""
        self.operators.tracing = True
        self.blas.start()

    def stop_operators(self) -> List[str]:
        """Write the recorded operators and calls; return the names of the written files."""
        self.operators.tracing = False
        return [self.operators.write(self.spec["folder"])] + self.blas.stop(self.spec["folder"])
