"""Lasagne: Theano's hooks, with Lasagne's layers, losses and updates."""

import importlib
from typing import Any, Dict, Tuple

from kernelscope.tracer.inside.frameworks.theano import workload as theano


class Hooks(theano.Hooks):
    """What a pass records of Lasagne."""

    methods: Tuple[str, ...] = ("get_output_for",)
    modules: Tuple[Any, ...] = (
        ("lasagne.objectives", ("loss", "forward")),
        ("lasagne.updates", ("", "optimizer")),
        ("kernelscope.workloads.lasagne.updates", ("", "optimizer")),
    ) + theano.MODULES

    def layer_kind(self) -> Any:
        """Import Lasagne, after the shim that it needs with a later Theano, and return its class Layer."""
        importlib.import_module("kernelscope.workloads.lasagne")
        return importlib.import_module("lasagne").layers.Layer

    def versions(self) -> Dict[str, Any]:
        """Return the versions of Lasagne and of what Theano's hooks report."""
        found = {"lasagne": importlib.import_module("lasagne").__version__}
        found.update(super(Hooks, self).versions())
        return found
