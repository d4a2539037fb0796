"""Theano: its profile of every node of its functions, the layers that nodes come from, and numpy's OpenBLAS calls.

A compiled function runs a whole step in one call. With `config.profile`, Theano's C virtual machine runs the nodes in order and
keeps how long each one took, but not when it started. We read these times after each call and lay the nodes out over the call's
time. Nodes that call OpenBLAS are placed at those calls: when one returns, the machine's counts tell which node is running. The
other nodes are placed between them.
"""

import functools
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.frameworks import openblas, timed
from kernelscope.tracer.inside.frameworks.theano import graph as theano_graph
from kernelscope.tracer.inside.frameworks.workload import KERNELS, cores, version_of
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.ranges import Recorder

_FLAGS = "THEANO_FLAGS"
# Modules whose variables belong to no layer's method: theano.grad's own additions, and the losses of theano.tensor.nnet
MODULES = (("theano.gradient", ("", "backward")), ("theano.tensor.nnet.nnet", ("loss", "forward")))


class Hooks(Base):
    """What a pass records of programs on Theano. A subclass supplies `layer_kind`."""

    methods: Tuple[str, ...] = ()  # names of the methods in which a layer computes its output
    modules: Tuple[Any, ...] = MODULES

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.theano: Any = None
        self.functions: List[Any] = []
        self.operators = timed.Operators(recorder)
        self.running: Any = None  # the function whose nodes run
        self.blas = openblas.Calls(recorder, self._blas_called)

    @classmethod
    def environment(cls, pass_name: str) -> Dict[str, str]:
        """Return the variable with Theano's flags: the user's, and those that we need unless the user has set them."""
        given = os.environ.get(_FLAGS, "")
        wanted = {"floatX": "float32"}
        if pass_name == KERNELS:
            wanted["profile"] = "True"
        added = ["%s=%s" % (name, value) for name, value in sorted(wanted.items()) if name + "=" not in given]
        return {_FLAGS: ",".join([part for part in [given] if part] + added)}

    def layer_kind(self) -> Any:
        """Import the library of layers and return the class of its layers. To be overridden."""
        raise NotImplementedError

    def configure(self) -> None:
        """Set the number of threads, import Theano and the library on top of it, and mark the variables that layers create."""
        openblas.limit_threads(self.spec.get("threads"))
        import theano

        self.theano = theano
        theano_graph.Origins(self.layer_kind(), self.methods, self.modules).install(theano)
        self._notice_functions()

    def _notice_functions(self) -> None:
        """Put a range around the calls of compiled functions, and collect the functions as they are created."""
        kind, functions = self.theano.compile.function_module.Function, self.functions
        original = kind.__init__

        @functools.wraps(original)
        def made(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
            original(function, *arguments, **keywords)
            functions.append(function)

        kind.__init__ = made
        self.ranged(kind, "__call__", "phase", "call", "other")

    def versions(self) -> Dict[str, Any]:
        """Return the versions of theano, numpy and OpenBLAS."""
        return {
            "theano": self.theano.__version__,
            "numpy": version_of("numpy"),
            "openblas": openblas.facts().get("version"),
        }

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results."""
        config, blas = self.theano.config, openblas.facts()
        return {
            "threads": blas.get("threads") or int(os.environ.get("OMP_NUM_THREADS", "0")) or None,
            "cores": cores(),
            "blas": config.blas.ldflags or ("numpy's OpenBLAS for %s" % blas["core"] if "core" in blas else "numpy's"),
            "openmp": bool(config.openmp),
            "compiler": config.cxx or None,
            "compiler_flags": config.gcc.cxxflags or None,
            "linker": str(config.linker),
            "optimizer": str(config.optimizer),
            "default_dtype": str(config.floatX),
            "memory_format": "channels first",
            "execution": "compiled: mode=%s" % config.mode,
        }

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Return how layers are found. The ranges of calls are in place already, and a call runs no layer's Python."""
        del program
        return {
            "layers": "the layer's method that created a Theano node, kept through rewriting",
            "phases": "each node's origin: a layer, differentiation or the optimizer; a call's range is the whole step's",
        }

    def start_operators(self, program: Any) -> None:
        """From now on, record what each call adds to Theano's profile."""
        self.operators.tracing = True
        for function in self.functions:
            if function.profile and hasattr(function.fn, "call_times"):
                function.fn = _Machine(function.fn, function.maker.fgraph, self)
        self.blas.start()

    def _blas_called(self) -> None:
        if self.running is not None:
            self.running.blas_called()

    def stop_operators(self) -> List[str]:
        """Write the recorded operators and calls; return the names of the written files."""
        self.operators.tracing = False
        del self.theano.compile.profiling._atexit_print_list[:]  # else Theano prints all profiles when the process ends
        return [self.operators.write(self.spec["folder"])] + self.blas.stop(self.spec["folder"])


class _Machine(object):
    """Wraps a function's virtual machine and records what each call added to its nodes' times."""

    def __init__(self, machine: Any, graph: Any, owner: Any) -> None:
        self._machine = machine
        self._owner = owner
        places = {node: number for number, node in enumerate(machine.nodes)}
        order = theano_graph.execution_order(machine.nodes, graph)
        self._order = [places[node] for node in order]  # numbers of the machine's nodes, in the order in which they run
        self._rows = theano_graph.describe(order)
        self._callers: List[Any] = []  # for each OpenBLAS call: the position in this order of the node that made it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def blas_called(self) -> None:
        """Note which node is running: the nodes with a count have finished."""
        counts = self._machine.call_counts
        self._callers.append(min(len(counts) - counts.count(0), len(self._order) - 1))

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        owner, self._callers = self._owner, []
        owner.running, first, start = self, owner.blas.count(), now_ns()
        try:
            results = self._machine(*arguments, **keywords)
        finally:
            owner.running = None
        end = now_ns()
        if owner.recorder.in_step:
            spans: Dict[Any, Any] = {}
            for caller, (begun, ended) in zip(self._callers, owner.blas.times(first)):
                spans[caller] = (spans.get(caller, (begun,))[0], ended)
            seconds = self._machine.call_times
            owner.operators.rows += laid_out(self._rows, [seconds[place] for place in self._order], start, end, spans)
        return results


def laid_out(
    rows: Sequence[Dict[str, Any]],
    seconds: Sequence[float],
    start: int,
    end: int,
    spans: Optional[Dict[int, Tuple[int, int]]] = None,
) -> List[Any]:
    """Return the operators of one call of a function, as rows of timed.Operators: its nodes that ran, from start to end (ns).

    rows: theano_graph.describe's, in order. seconds: how long each node ran, rounded by Theano. spans: {node's number: (start
    of its first OpenBLAS call, end of its last)} in ns; the node contains them. The rest of the call's time is put, in equal
    parts, before each node. If nodes would overlap, the earlier one ends when the later one begins.
    """
    spans = spans or {}
    ran = [(number, int(round(taken * 1e9))) for number, taken in enumerate(seconds) if taken > 0 or number in spans]
    gap = max(0, end - start - sum(taken for _, taken in ran)) // (len(ran) + 1)
    times, at = [], start
    for number, taken in ran:
        begun, ended = at + gap, at + gap + taken
        if number in spans:
            first, last = spans[number]
            begun = max(min(begun, first), last - taken, start) if last - taken <= first else first
            ended = max(begun + taken, last)
        times.append((begun, ended))
        at = ended
    found, limit = [], end
    for (number, _), (begun, ended) in zip(reversed(ran), reversed(times)):
        begun, ended = min(begun, limit), min(ended, limit)
        row, limit = rows[number], begun
        found.append((begun, ended, row["op"], row["layer"] or None, row["phase"] or "other", None, True))
    return found[::-1]
