"""ONNX Runtime: a range around each run of a session, and ONNX Runtime's own profiler for what happens inside.

The profiler can only be switched on before a session is created, so the kernels pass creates the program's session again. It
records each node of the optimized graph, with times in whole microseconds from its own start, whose wall-clock time is known.
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
        """Import ONNX Runtime; raise ValueError for a GPU. The program sets the threads when it creates the session."""
        if self.on_gpu:
            raise ValueError("onnxruntime: device cuda is not supported: the environment has the CPU build")
        importlib.import_module("onnxruntime")

    def versions(self) -> Dict[str, Any]:
        """Return the versions of ONNX Runtime, ONNX and numpy."""
        return versions_of("onnxruntime", "onnx", "numpy")

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results."""
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
        """Put a range around the session's run; the kernels pass first reopens it with a profiler. Say how layers are found."""
        self.program = program
        if self.kernels:
            program.options.enable_profiling = True
            program.options.profile_file_prefix = os.path.join(self.spec["folder"], "profile")
            program.open()
        self.ranged(program.session, "run", "phase", "call", "other")
        if not self.kernels:
            return {"layers": "none: a session runs no Python; the kernels pass finds them by node names", "phases": "calls"}
        return {
            "layers": "node names of the optimized graph; a fused node belongs to the layer that computes",
            "phases": "inference only",
        }

    def stop_operators(self) -> List[str]:
        """Stop the session's profiler; keep its trace and start time in the pass's folder; return the trace's file name."""
        session = self.program.session
        with open(os.path.join(self.spec["folder"], START_FILE), "w") as out:
            json.dump({"wall_ns": session.get_profiling_start_time_ns()}, out)
        os.replace(session.end_profiling(), os.path.join(self.spec["folder"], TRACE_FILE))
        return [TRACE_FILE]
