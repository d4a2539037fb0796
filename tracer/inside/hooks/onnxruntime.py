"""ONNX Runtime: a range around each run of a session, and its own profiler for what happens inside.

The profiler is switched on before a session is made, so the program makes its session again for the kernels pass. It records
each node of the optimized graph with its time in whole microseconds, and when it was started by the wall clock.
"""

import json
import os

from kernelscope.tracer.inside import hooks

TRACE_FILE = "operators.onnxruntime.json"
START_FILE = "operators.start.json"


def environment(pass_name):
    """Return the variables to set before ONNX Runtime is imported: none."""
    return {}


class Hooks(object):
    """What a pass records of ONNX Runtime; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.onnxruntime = None
        self.program = None

    def configure(self):
        """Import ONNX Runtime; its threads are set by the program, which makes the session."""
        if str(self.spec.get("device") or "cpu").startswith("cuda"):
            raise ValueError("onnxruntime: device cuda is not supported: the environment holds the build for processors")
        import onnxruntime

        self.onnxruntime = onnxruntime

    def versions(self):
        """Return the versions of ONNX Runtime, ONNX and numpy."""
        found = {"onnxruntime": self.onnxruntime.__version__}
        for name in ("onnx", "numpy"):
            version = hooks.version_of(name)
            if version:
                found[name] = version
        return found

    def settings(self):
        """Return the settings in force that can make a difference to speed or results."""
        found = {"cores": hooks.cores(), "execution": "graph optimized when the session is made", "default_dtype": "float32"}
        if self.program is None:
            return dict(found, threads=int(self.spec.get("threads") or 0) or hooks.cores())
        options = self.program.options
        return dict(
            found,
            threads=options.intra_op_num_threads or hooks.cores(),
            inter_op_threads=options.inter_op_num_threads,
            graph_optimization=options.graph_optimization_level.name,
            execution_mode=options.execution_mode.name,
            providers=", ".join(self.program.session.get_providers()),
        )

    def attach_layers(self, program):
        """Put a range around the session's run, in the kernels pass of a session with a profiler; return how layers are found."""
        self.program = program
        if self.spec["pass"] == "kernels":
            program.options.enable_profiling = True
            program.options.profile_file_prefix = os.path.join(self.spec["folder"], "profile")
            program.open()
        program.session.run = self.recorder.ranged(program.session.run, "phase", "call", "other")
        if self.spec["pass"] != "kernels":
            return {"layers": "none: a session runs no Python; the kernels pass finds them by nodes' names", "phases": "calls"}
        return {
            "layers": "names of the optimized graph's nodes; of what it fused, the layer that computes",
            "phases": "inference only",
        }

    def start_operators(self, program):
        """The profiler runs since the session was made."""

    def stop_operators(self):
        """Stop the profiler; keep its trace, and when it began, in the pass's folder, and return the trace's name."""
        if self.spec["pass"] != "kernels":
            return []
        session = self.program.session
        with open(os.path.join(self.spec["folder"], START_FILE), "w") as out:
            json.dump({"wall_ns": session.get_profiling_start_time_ns()}, out)
        os.replace(session.end_profiling(), os.path.join(self.spec["folder"], TRACE_FILE))
        return [TRACE_FILE]
