"""PyTorch in our workloads: ranges around phases and modules, torch.profiler, and the settings that matter.

Layers are the modules without children (and those with parameters of their own), named as in the network. A layer's forward is
a call of the module; for backward see `backward`. nn.Module.__call__ is wrapped once, because forward hooks take a slower path
through it: a range costs a few microseconds per layer.
"""

import functools
from typing import Any, Callable, Dict, List, Sequence, Tuple

from kernelscope.tracer.inside.frameworks.pytorch import replay
from kernelscope.tracer.inside.frameworks.pytorch.backward import MARK, BackwardLayers, ranks_of
from kernelscope.tracer.inside.frameworks.pytorch.library import COLLECTIVE, Library
from kernelscope.tracer.inside.frameworks.workload import CannotReplay
from kernelscope.tracer.inside.frameworks.workload import Hooks as Base
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.ranges import Recorder

ROOT = object()  # the mark of the whole model


def layer_modules(root: Any) -> List[Tuple[str, Any]]:
    """Return [(name, module)] of the layers under `root`; a root that is itself a layer gets its class's name.

    Wrappers of the model, such as DataParallel or a compiled module, are not part of the names.
    """
    found = []
    for name, module in unwrapped(root).named_modules():
        has_children = next(module.children(), None) is not None
        has_parameters = next(module.parameters(recurse=False), None) is not None
        if not has_children or has_parameters:
            found.append((name or type(module).__name__, module))
    return found


def program_layers(program: Any) -> List[Tuple[str, Any]]:
    """Return [(name, module)] of a program's layers; one in its network's description gets that name, a path without dots."""
    described = {layer.name for layer in program.network.layers} if hasattr(program, "network") else ()
    found = []
    for path, module in layer_modules(program.model):
        name = path.replace(".", "_")
        found.append((name if name in described else path, module))
    return found


def unwrapped(root: Any) -> Any:
    """Return the module inside all wrappers: modules with nothing but one child that has children itself."""
    while True:
        children = list(root.children())
        if len(children) != 1 or next(children[0].children(), None) is None:
            return root
        if next(root.parameters(recurse=False), None) is not None:
            return root
        root = children[0]


def mark(called: Any, layer: Any) -> None:
    """Set the layer that calls of this object stand for; ROOT for the whole model."""
    called.__dict__[MARK] = layer


class Hooks(Base):
    """What a pass records of PyTorch."""

    # oneDNN and MKL print each call, oneDNN with the wall clock's time of its start
    KERNELS_VARIABLES = {"ONEDNN_VERBOSE": "1", "ONEDNN_VERBOSE_TIMESTAMP": "1", "MKL_VERBOSE": "1"}

    def __init__(self, spec: Dict[str, Any], recorder: Recorder) -> None:
        super(Hooks, self).__init__(spec, recorder)
        self.patches = Patches()

    def configure(self) -> None:
        """Import torch and set the number of threads."""
        import torch

        self.library = Library(torch)
        if self.spec.get("threads"):
            torch.set_num_threads(self.spec["threads"])
        self.library.notice_compiling()

    def attach_layers(self, program: Any) -> Dict[str, str]:
        """Hook the program's model, loss, optimizer and backward; return how layers and phases are found."""
        torch = self.library.torch
        self.library.model = program.model
        backward = BackwardLayers(self.recorder, torch)
        mark(program.model, ROOT)
        for name, module in program_layers(program):
            mark(module, name)
        if isinstance(program.loss, torch.nn.Module):
            mark(program.loss, "loss")
        self.attach_calls(backward, torch.nn.Module)
        self.patches.wrap(torch.Tensor, "backward", backward.around)
        self.attach_optimizer(program.optimizer)
        self.attach_synchronisation()
        return {
            "layers": "calls of modules; backward by hooks on the tensors between them",
            "phases": "calls of the model, Tensor.backward, the optimizer's step and zero_grad",
        }

    def attach_calls(self, backward: BackwardLayers, owner: Any) -> None:
        """Wrap the call of a class, such as nn.Module: marked modules get a range; others cost one attribute lookup."""
        push, pop, enabled = self.recorder.push, self.recorder.pop, self.library.torch.is_grad_enabled
        original = owner.__call__

        @functools.wraps(original)
        def call(module: Any, *arguments: Any, **keywords: Any) -> Any:
            layer = module.__dict__.get(MARK)
            if layer is None:
                return original(module, *arguments, **keywords)
            if layer is ROOT:
                push("phase", "forward", None, "forward")
            else:
                push("layer", layer, layer, "forward")
            try:
                if layer is ROOT or not enabled():
                    return original(module, *arguments, **keywords)
                backward.enter(arguments)
                if keywords:
                    backward.enter(keywords.values())
                output = original(module, *arguments, **keywords)
                backward.leave(layer, output)
                return output
            finally:
                pop()

        owner.__call__ = call

    def attach_optimizer(self, optimizer: Any, names: Sequence[str] = ("step", "zero_grad")) -> None:
        """Put ranges around an optimizer's own methods."""
        for name in names:
            self.ranged(optimizer, name, "phase", "optimizer " + name, "optimizer")

    def attach_synchronisation(self) -> None:
        """Put ranges around calls that wait for a value and around collectives, which wait for other ranks on any device."""
        torch = self.library.torch
        for name in COLLECTIVE if ranks_of(torch) > 1 else ():
            self.ranged(torch.distributed, name, "sync", name, "other")
        self.library.range_synchronisation(self.patches, self.recorder, self.on_gpu, self.kernels)

    def start_operators(self, program: Any) -> None:
        """Start torch.profiler."""
        self.library.start_profiler(self.on_gpu and self.spec.get("device_profiler", True))

    def stop_operators(self) -> List[str]:
        """Stop torch.profiler and write its trace."""
        return self.library.stop_profiler(self.spec["folder"])

    def replayer(self, program: Any, layer: str, step: Callable[[], Any]) -> Callable[[], None]:
        """Return a function that runs one layer alone, with its inputs in one ordinary step; may raise CannotReplay."""
        torch, self.library.model = self.library.torch, program.model
        execution = self.library.execution()
        if execution != "eager":
            raise CannotReplay("the model is %s, and so has no layers that run alone" % execution)
        module = dict(program_layers(program)).get(layer)
        if module is None:
            raise CannotReplay("the model has no module of this name")
        return replay.replayer(torch, module, step, torch.cuda.synchronize if self.on_gpu else lambda: None)
