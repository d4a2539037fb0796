"""Theano: its profile of every node of its functions, the layers that nodes come from, and numpy's calls of OpenBLAS.

A compiled function runs a whole step in one call. With `config.profile` Theano's virtual machine in C adds up how long each
node took, and in what order it ran them; it keeps no starts. So what it added up is read after each call, and its nodes are laid
out in their order over the time of the call, with what the machine itself took in equal parts between them.
"""

import functools
import os

from kernelscope.tracer.inside import hooks
from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.hooks import openblas, theano_graph, timed

_FLAGS = "THEANO_FLAGS"
# Modules in which nothing of a layer is made: what theano.grad adds of itself, and its products' losses
MODULES = (("theano.gradient", ("", "backward")), ("theano.tensor.nnet.nnet", ("loss", "forward")))


def environment(pass_name):
    """Return Theano's flags with those that are needed; what the user has set stays."""
    given = os.environ.get(_FLAGS, "")
    wanted = {"floatX": "float32"}
    if pass_name == "kernels":
        wanted["profile"] = "True"
    added = ["%s=%s" % (name, value) for name, value in sorted(wanted.items()) if name + "=" not in given]
    return {_FLAGS: ",".join([part for part in [given] if part] + added)}


class Hooks(object):
    """What a pass records of programs on Theano: of those that have `layer_kind`; see the package for the order of calls."""

    methods = ()  # names of the methods in which a layer computes its output
    modules = MODULES

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.theano = None
        self.functions = []
        self.operators = timed.Operators(recorder)
        self.blas = openblas.Calls(recorder)

    def layer_kind(self):
        """Import the library of layers and return the class of its layers."""
        raise NotImplementedError

    def configure(self):
        """Set the number of threads, import theano and the library on it, and mark what their layers make."""
        openblas.limit_threads(self.spec.get("threads"))
        import theano

        self.theano = theano
        theano_graph.Origins(self.layer_kind(), self.methods, self.modules).install(theano)
        self._notice_functions()

    def _notice_functions(self):
        """Put a range around the calls of compiled functions, and keep those that are made."""
        kind, functions = self.theano.compile.function_module.Function, self.functions
        original = kind.__init__

        @functools.wraps(original)
        def made(function, *arguments, **keywords):
            original(function, *arguments, **keywords)
            functions.append(function)

        kind.__init__ = made
        kind.__call__ = self.recorder.ranged(kind.__call__, "phase", "call", "other")

    def versions(self):
        """Return the versions of theano, numpy and OpenBLAS."""
        return {
            "theano": self.theano.__version__,
            "numpy": hooks.version_of("numpy"),
            "openblas": openblas.facts().get("version"),
        }

    def settings(self):
        """Return the settings in force that can make a difference to speed or results."""
        config, blas = self.theano.config, openblas.facts()
        return {
            "threads": blas.get("threads") or int(os.environ.get("OMP_NUM_THREADS", "0")) or None,
            "cores": hooks.cores(),
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

    def attach_layers(self, program):
        """Return how layers are found: the ranges of calls are there already, and a call goes through no layer's Python."""
        del program
        return {
            "layers": "the layers' methods in which Theano's nodes were made, kept through its rewriting",
            "phases": "what differentiation and the optimizer made; the range of a call is the whole step's",
        }

    def start_operators(self, program):
        """Record what Theano's profile adds up in each call, in the kernels pass."""
        if self.spec["pass"] != "kernels":
            return
        self.operators.tracing = True
        for function in self.functions:
            if function.profile and hasattr(function.fn, "call_times"):
                function.fn = _Machine(function.fn, self.operators)
        self.blas.start()

    def stop_operators(self):
        """Write what was recorded; return the names of the files."""
        if not self.operators.tracing:
            return []
        self.operators.tracing = False
        del self.theano.compile.profiling._atexit_print_list[:]  # it would print the profiles of everything when it ends
        return [self.operators.write(self.spec["folder"])] + self.blas.stop(self.spec["folder"])


class _Machine(object):
    """A function's virtual machine that tells what each call of it added to its nodes' times."""

    def __init__(self, machine, operators):
        self._machine = machine
        self._operators = operators
        self._rows = theano_graph.describe(machine.nodes)

    def __getattr__(self, name):
        return getattr(self._machine, name)

    def __call__(self, *arguments, **keywords):
        start = now_ns()
        results = self._machine(*arguments, **keywords)
        end = now_ns()
        if self._operators.recorder.in_step:
            self._operators.rows += laid_out(self._rows, self._machine.call_times, start, end)
        return results


def laid_out(rows, seconds, start, end):
    """Return the operators of one call: nodes that took time, one after the other from start to end.

    rows: of theano_graph.describe, in order; seconds: how long each node ran. What is left of the call goes in equal parts
    before each node; where the nodes' times, which Theano rounds, are longer than the call, they are cut in proportion.
    """
    ran = [(row, taken * 1e9) for row, taken in zip(rows, seconds) if taken > 0]
    total = sum(taken for _, taken in ran)
    scale = min(1.0, (end - start) / total) if total else 1.0
    gap = max(0.0, end - start - total) / (len(ran) + 1)
    at, found = float(start), []
    for row, taken in ran:
        first = at + gap
        at = min(first + taken * scale, float(end))
        found.append((int(first), int(at), row["op"], row["layer"] or None, row["phase"] or "other", None, True))
    return found
