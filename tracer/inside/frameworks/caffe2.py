"""Caffe2: in passes that look inside, each operator of a net runs as a net of its own, timed on our clock.

A net runs without returning to Python, and Caffe2's observers give mean times of its operators but no timeline. Operators share
nothing but the workspace's blobs, so running them one after another computes the same as the whole net. The cost of calling
them one by one shows in the difference to the clean pass. Layers come from the names of blobs, which are layer names.
"""

import os
from typing import Any, Dict, List, Optional, Set

from kernelscope.tracer.inside.frameworks import timed
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.frameworks.workload import cores, version_of
from kernelscope.tracer.inside.ranges import Recorder

_GRADIENT = "_grad"
_UPDATING = ("AtomicIter", "Iter")  # the first operator of an update rule counts the steps


class Hooks(Base):
    """What a pass records of Caffe2."""

    KERNELS_VARIABLES = {"MKL_VERBOSE": "1"}

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.workspace: Any = None
        self.version: Any = None
        self.operators = timed.Operators(recorder)
        self.separate: Dict[Any, Any] = {}  # name of a net -> its operators

    def configure(self) -> None:
        """Set the number of OpenMP threads and import Caffe2, which is part of PyTorch's package."""
        if self.spec.get("threads"):
            os.environ["OMP_NUM_THREADS"] = str(self.spec["threads"])
        import torch
        from caffe2.python import workspace

        self.version, self.workspace = torch.__version__, workspace

    def versions(self) -> Dict[str, Any]:
        """Return the versions of PyTorch's package, which contains Caffe2, and of numpy."""
        return {"caffe2": self.version, "numpy": version_of("numpy")}

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results."""
        return {
            "threads": int(self.spec.get("threads") or 0) or cores(),
            "cores": cores(),
            "execution": "nets of type simple: operators one after the other",
            "memory_format": "channels first",
            "default_dtype": "float32",
        }

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Run each operator as a net of its own, with a range around it; return how layers and phases are found."""
        from caffe2.python import core

        for model in {program.model, program.tested}:
            self.separate[model.net.Name()] = described(model.net, program.network)
            for number, operator in enumerate(self.separate[model.net.Name()]):
                net = core.Net("%s_operator%d" % (model.net.Name(), number))
                net.Proto().op.extend([operator.definition])
                self.workspace.CreateNet(net)
                operator.net = net.Name()
        program.run = self.recorder.ranged(self.run, "phase", "call", "other")
        self.ranged(self.workspace, "FetchBlob", "sync", "read", "other")
        return {
            "layers": "blob names; each operator runs as a net of its own",
            "phases": "forward before the first gradient, backward from there on, optimizer from the update rule on",
        }

    def run(self, model: Any) -> None:
        """Run a model's operators one by one."""
        push, pop, run_net = self.recorder.push, self.recorder.pop, self.workspace.RunNet
        for operator in self.separate[model.net.Name()]:
            layer, phase = operator.layer, operator.phase
            push("layer" if layer else "phase", layer or operator.name, layer, phase)
            self.operators.enter(operator.name, layer, phase, operator.shapes)
            try:
                run_net(operator.net)
            finally:
                self.operators.leave(True)
                pop()

    def start_operators(self, program: Any) -> None:
        """Record the operators' times from now on. Blobs have had their shapes since the first step."""
        for operator in self.separate[(program.model if program.mode == "train" else program.tested).net.Name()]:
            if operator.layer:
                operator.shapes = timed.shape_text(self.workspace.FetchBlob(name) for name in operator.definition.input)
        self.operators.tracing = True

    def stop_operators(self) -> List[str]:
        """Write the recorded operators; return the names of the written files."""
        self.operators.tracing = False
        return [self.operators.write(self.spec["folder"])]


class Operator(object):
    """One operator of a net: its definition, layer and phase, and the net that runs it alone."""

    def __init__(self, definition: Any, layer: Optional[str], phase: str) -> None:
        self.definition = definition
        self.name = str(definition.type)
        self.layer = layer
        self.phase = phase
        self.shapes: Any = None
        self.net: Any = None


def described(net: Any, network: Any) -> List["Operator"]:
    """Return a net's operators with their layers and phases, in the order of execution."""
    layers = {layer.name for layer in network.layers}
    found, phase = [], "forward"
    for definition in net.Proto().op:
        if definition.type in _UPDATING:
            phase = "optimizer"
        elif phase == "forward" and any(name.endswith(_GRADIENT) for name in definition.output):
            phase = "backward"
        found.append(Operator(definition, layer_of(definition, phase, layers), phase))
    return found


def layer_of(definition: Any, phase: str, layers: Set[str]) -> Optional[str]:
    """Return an operator's layer, or None.

    Forward, it is the layer whose result the operator computes; backward, the layer whose result's gradient it reads, or else
    "loss". Operators of the optimizer have none.
    """
    if phase == "optimizer":
        return None
    names = (
        definition.output
        if phase == "forward"
        else [name[: -len(_GRADIENT)] for name in definition.input if name.endswith(_GRADIENT)]
    )
    found = next((str(name) for name in names if name in layers), None)
    return "loss" if found is None and phase == "backward" else found
