"""CNTK in our workloads: ranges around its calls, its profiler's nodes with their graph, and timed MKL calls."""

import functools
import os
from typing import Any, Callable, Dict, List

from kernelscope.tracer.inside import interpose
from kernelscope.tracer.inside.frameworks.cntk import graph
from kernelscope.tracer.inside.frameworks.cntk.library import Library
from kernelscope.tracer.inside.frameworks.workload import KERNELS
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

# functions of CNTK's library that switch diagnostics: (function, setting, its new value; None: the argument)
_DIAGNOSING = (
    ("enable_node_timing", "node_timing", True),
    ("disable_node_timing", "node_timing", False),
    ("enable_profiler", "profiler", True),
    ("disable_profiler", "profiler", False),
    ("stop_profiler", "profiler", False),
    ("set_computation_network_trace_level", "trace_level", None),
    ("set_checked_mode", "checked_mode", None),
)


class Hooks(Base):
    """What a pass records of CNTK."""

    TRACED = ("layers", KERNELS)

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.cntk: Any = None
        self.roots: Dict[Any, Any] = {}  # uid -> functions that were trained or evaluated

    @classmethod
    def environment(cls, pass_name: str) -> Dict[str, str]:
        """Return the variables to set before CNTK is imported: MKL_VERBOSE if its calls cannot be timed."""
        return {"MKL_VERBOSE": "1"} if pass_name == KERNELS and not interpose.supported() else {}

    def configure(self) -> None:
        """Set threads and device; in traced passes, switch node timing on before any graph is built."""
        threads = self.spec.get("threads")
        if threads:
            os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
        import cntk

        self.cntk, self.library = cntk, Library(cntk, self.recorder)
        self._notice_diagnosing()
        if threads:
            cntk.cntk_py.set_max_num_cputhreads(threads)
        device = cntk.device.gpu(0) if self.on_gpu else cntk.device.cpu()
        cntk.device.try_set_default_device(device)
        if self.spec["pass"] in self.TRACED:
            cntk.debugging.set_node_timing(True)
        if self.kernels:
            self.library.timed_functions = self.library.calls.install()
            if not self.library.timed_functions:
                os.environ["MKL_VERBOSE"] = "1"  # MKL reads it at its first call, which has not happened yet

    def _notice_diagnosing(self) -> None:
        """Record which diagnostics are switched on, because CNTK cannot be asked."""
        library, diagnosing = self.cntk.cntk_py, self.library.diagnosing

        def noticing(name: Any, setting: Any, value: Any) -> None:
            original = getattr(library, name)

            @functools.wraps(original)
            def call(*arguments: Any) -> Any:
                diagnosing[setting] = arguments[0] if value is None and arguments else value
                return original(*arguments)

            setattr(library, name, call)

        for name, setting, value in _DIAGNOSING:
            if hasattr(library, name):
                noticing(name, setting, value)

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Put ranges around CNTK's calls; return how layers are found. Nodes get their layers from the graph after the run."""
        del program  # the wrapped calls see what is trained or evaluated
        patches = Patches()
        self.library.range_calls(patches, self.recorder)
        patches.wrap(self.cntk.Trainer, "train_minibatch", self.telling(self.saw_trainer))
        patches.wrap(self.cntk.ops.functions.Function, "eval", self.telling(self.saw_function))
        return {
            "layers": "CNTK's profiler with node timing; nodes mapped to layers through the graph",
            "phases": "direction of each node and the profiler's ranges",
            "mkl": "timed calls" if self.library.timed_functions else "MKL_VERBOSE",
        }

    @staticmethod
    def telling(saw: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper for a method that calls saw(owner) before each call."""

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def called(owner: Any, *arguments: Any, **keywords: Any) -> Any:
                saw(owner)
                return original(owner, *arguments, **keywords)

            return called

        return around

    def saw_trainer(self, trainer: Any) -> None:
        """Remember a trainer, and its loss function as a root of the graph."""
        if all(trainer is not known for known in self.library.trainers):
            self.library.trainers.append(trainer)
            self.roots[trainer.loss_function.uid] = trainer.loss_function

    def saw_function(self, function: Any) -> None:
        """Remember an evaluated function as a root of the graph."""
        self.roots.setdefault(function.uid, function)

    def start_operators(self, program: Any) -> None:
        """Start CNTK's profiler."""
        self.library.start_profiler(self.spec["folder"], self.kernels and self.on_gpu)

    def stop_operators(self) -> List[str]:
        """Stop the profiler and write the timeline, the graph and the timed calls; return the names of the written files."""
        functions = list(self.roots.values())
        files = self.library.stop_profiler(self.spec["folder"], graph.describe(functions), self.spec.get("batch"))
        if self.kernels:
            for owner in self.library.trainers or functions:
                owner.print_node_timing()
        return files
