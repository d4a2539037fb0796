"""ONNX Runtime: a range around each run of a session, and its own profiler for what happens inside.

The profiler is switched on before a session is made, so the program makes its session again for the kernels pass. It records
each node of the optimized graph with its time in whole microseconds, and when it was started by the wall clock.
"""

import importlib
import json
import os
from typing import Any, Dict, List

from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.frameworks.workload import cores, versions_of
from kernelscope.tracer.inside.ranges import Recorder

TRACE_FILE = "operators.onnxruntime.json"
START_FILE = "operators.start.json"


class Hooks(Base):
    """What a pass records of ONNX Runtime."""

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.program: Any = None

    def configure(self) -> None:
        """Import ONNX Runtime; its threads are set by the program, which makes the session."""
        if self.on_gpu:
            raise ValueError("onnxruntime: device cuda is not supported: the environment holds the build for processors")
        importlib.import_module("onnxruntime")

    def versions(self) -> Dict[str, Any]:
        """Return the versions of ONNX Runtime, ONNX and numpy."""
        return versions_of("onnxruntime", "onnx", "numpy")

    def settings(self) -> Dict[str, Any]:
        """Return the settings in force that can make a difference to speed or results."""
        found = {"cores": cores(), "execution": "graph optimized when the session is made", "default_dtype": "float32"}
        if self.program is None:
            return dict(found, threads=int(self.spec.get("threads") or 0) or cores())
        options = self.program.options
        return dict(
            found,
            threads=options.intra_op_num_threads or cores(),
            inter_op_threads=options.inter_op_num_threads,
            graph_optimization=options.graph_optimization_level.name,
            execution_mode=options.execution_mode.name,
            providers=", ".join(self.program.session.get_providers()),
        )

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put a range around the session's run, in the kernels pass of a session with a profiler; return how layers are found."""
        self.program = program
        if self.kernels:
            program.options.enable_profiling = True
            program.options.profile_file_prefix = os.path.join(self.spec["folder"], "profile")
            program.open()
        self.ranged(program.session, "run", "phase", "call", "other")
        if not self.kernels:
            return {"layers": "none: a session runs no Python; the kernels pass finds them by nodes' names", "phases": "calls"}
        return {
            "layers": "names of the optimized graph's nodes; of what it fused, the layer that computes",
            "phases": "inference only",
        }

    def stop_operators(self) -> List[str]:
        """Stop the session's profiler; keep its trace, and when it began, in the pass's folder; return the trace's name."""
        session = self.program.session
        with open(os.path.join(self.spec["folder"], START_FILE), "w") as out:
            json.dump({"wall_ns": session.get_profiling_start_time_ns()}, out)
        os.replace(session.end_profiling(), os.path.join(self.spec["folder"], TRACE_FILE))
        return [TRACE_FILE]
