"""PyTorch: ranges around phases and modules, torch.profiler, and the settings that matter.

Layers are the modules without children (and those with parameters of their own). Their forward is a call of the module. Their
backward is found through the tensors between them: autograd takes operations in the reverse order of their making, so what
computes a layer's gradients runs from when the gradient of its output is there until that of its input is. Hooks on these
tensors open the layer's range and close the one before. The gradients of its parameters fall inside; it works for first
layers, whose input has no gradient, and for in-place operations.

The means are chosen for their cost, a few microseconds a layer: nn.Module.__call__ is wrapped once, because forward hooks take
a slower path through it, and a tensor's dictionary of hooks is set as Tensor.register_hook does it, but without its handles.
"""

import functools
import os
import re
import threading
from collections import OrderedDict

from kernelscope.tracer.inside import hooks
from kernelscope.tracer.inside.hooks import pytorch_replay

TRACE_FILE = "operators.pt.trace.json.gz"
_MARK = "_kernelscope"  # on a module: its layer, or ROOT; on a tensor: its version when the hook was set
ROOT = object()
_KEY = -1  # of our hook in a tensor's dictionary: torch's own handles count up from 0
_COMPILING_OPTIONS = ("backend", "mode", "fullgraph", "dynamic", "disable")  # of torch.compile
COLLECTIVE = ("all_gather", "all_reduce", "barrier", "broadcast", "gather", "reduce")  # functions of torch.distributed
SYNCHRONISING = ("item", "cpu", "numpy", "tolist")  # methods of a tensor that wait for its value


def environment(pass_name):
    """Return the variables that make oneDNN and MKL print each call; oneDNN with the wall clock's time of its start."""
    if pass_name != "kernels":
        return {}
    return {"ONEDNN_VERBOSE": "1", "ONEDNN_VERBOSE_TIMESTAMP": "1", "MKL_VERBOSE": "1"}


def layer_modules(root):
    """Return [(name, module)] of what counts as a layer under `root`; a root that is itself a layer has its class's name.

    What only wraps the model, such as DataParallel or a compiled module, is no part of the names.
    """
    found = []
    for name, module in unwrapped(root).named_modules():
        has_children = next(module.children(), None) is not None
        has_parameters = next(module.parameters(recurse=False), None) is not None
        if not has_children or has_parameters:
            found.append((name or type(module).__name__, module))
    return found


def program_layers(program):
    """Return [(name, module)] of a program's layers; what its network's description has gets that name: a path without dots."""
    described = {layer.name for layer in program.network.layers} if hasattr(program, "network") else ()
    found = []
    for path, module in layer_modules(program.model):
        name = path.replace(".", "_")
        found.append((name if name in described else path, module))
    return found


def unwrapped(root):
    """Return the module inside of those that have nothing but one child, which has children itself."""
    while True:
        children = list(root.children())
        if len(children) != 1 or next(children[0].children(), None) is None:
            return root
        if next(root.parameters(recurse=False), None) is not None:
            return root
        root = children[0]


def ranks_of(torch):
    """Return how many processes share a step."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def mark(called, layer):
    """Say which layer the calls of an object stand for; ROOT for the whole model."""
    called.__dict__[_MARK] = layer


class BackwardLayers(object):
    """Ranges for the backward pass of layers, from hooks on the tensors between them."""

    def __init__(self, recorder, torch):
        self.recorder = recorder
        self.thread = None  # the thread that called backward, while it runs
        self.shared = ranks_of(torch) > 1
        self._waiting = None  # the number of the range around a wait for other ranks, while it is open
        self._tensor = torch.Tensor
        self._queue_callback = torch.autograd.Variable._execution_engine.queue_callback
        self._open = {}  # thread -> layer whose range is open there
        self._openers = {}  # layer -> dictionary of hooks
        self._closer = OrderedDict([(_KEY, lambda gradient: self.close())])

    def enter(self, values, around=None):
        """Before a layer runs on `values`: where no layer made a tensor, backward leaves this layer for a function.

        around: the layer whose own code calls this one and has made such tensors; without one that is no layer's.
        """
        self._mark(values, self._closer if around is None else self._hooks_of(around))

    def leave(self, layer, output):
        """After a layer has returned `output`: backward enters it there, except by tensors that it only passed through."""
        self._mark((output,), self._hooks_of(layer))

    def _hooks_of(self, layer):
        hooks = self._openers.get(layer)
        if hooks is None:
            hooks = self._openers[layer] = OrderedDict([(_KEY, self._opener(layer))])
        return hooks

    def _mark(self, values, hooks):
        """Set the hooks on tensors that have none yet; an in-place operation makes a new version, another tensor to backward."""
        for value in values:
            if isinstance(value, self._tensor):
                known = value.__dict__
                if known.get(_MARK) is None or known[_MARK] != value._version:
                    if not value.is_leaf:
                        known[_MARK] = value._version
                        self._hook(value, hooks)
            elif isinstance(value, (tuple, list)):
                self._mark(value, hooks)
            elif isinstance(value, dict):
                self._mark(value.values(), hooks)

    @staticmethod
    def _hook(tensor, hooks):
        if tensor._backward_hooks is None:
            tensor._backward_hooks = hooks.copy()
            tensor.grad_fn._register_hook_dict(tensor)
        else:
            tensor.register_hook(hooks[_KEY])

    def _opener(self, layer):
        """Return the hook that opens the layer's range, closing what was open; an open range of the same layer goes on."""
        opened_by, push, pop, ident = self._open, self.recorder.push, self.recorder.pop, threading.get_ident

        def hook(gradient):
            thread = ident()
            opened = opened_by.get(thread)
            if opened == layer:
                return
            if opened is not None:
                pop()
            elif thread != self.thread:
                self._queue_callback(self.close)  # an engine's thread: nothing of ours runs there when backward ends
            elif self.shared:
                self._queue_callback(self._wait)
            opened_by[thread] = layer
            push("layer", layer, layer, "backward")

        return hook

    def suspend(self):
        """Leave the layer that is open on this thread open, for a backward inside of this one; return it for `resume`."""
        return self._open.pop(threading.get_ident(), None)

    def resume(self, layer):
        """Go on with the backward around the one that ended."""
        if layer is not None:
            self._open[threading.get_ident()] = layer

    def close(self):
        """Close the range that is open on this thread, if any."""
        if self._open.pop(threading.get_ident(), None) is not None:
            self.recorder.pop()
        if self._waiting is not None:
            self.recorder.close(self._waiting)
            self._waiting = None

    def _wait(self):
        """After the last gradient: what backward still does is to wait until the ranks have exchanged them all."""
        self.close()
        self._waiting = self.recorder.push("sync", "other ranks", None, "backward")


class Hooks(object):
    """What a pass records of PyTorch; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.torch = None
        self.model = None
        self.compiled = []  # how code was compiled, by which function, in order
        self.profiler = None

    def configure(self):
        """Import torch and set the number of threads."""
        import torch

        self.torch = torch
        if self.spec.get("threads"):
            torch.set_num_threads(self.spec["threads"])
        self._notice_compiling()

    def _notice_compiling(self):
        """Keep by which functions code is compiled: models may be, or functions that call them."""
        torch = self.torch

        def noticing(original, name):
            @functools.wraps(original)
            def compiling(*arguments, **keywords):
                options = ["%s=%s" % (key, keywords[key]) for key in _COMPILING_OPTIONS if keywords.get(key)]
                text = " ".join([name] + options)
                if text not in self.compiled:
                    self.compiled.append(text)
                return original(*arguments, **keywords)

            return compiling

        for owner, name, label in (
            (torch, "compile", "torch.compile"),
            (torch.nn.Module, "compile", "torch.compile"),
            (torch.jit, "script", "torch.jit.script"),
            (torch.jit, "trace", "torch.jit.trace"),
        ):
            if hasattr(owner, name):
                setattr(owner, name, noticing(getattr(owner, name), label))

    def versions(self):
        """Return the versions of torch, numpy, oneDNN, MKL, and of CUDA and cuDNN where this build has them."""
        torch = self.torch
        found = {"pytorch": torch.__version__}
        try:
            import numpy

            found["numpy"] = numpy.__version__
        except ImportError:
            pass
        built = torch.__config__.show()
        for name, pattern in (("onednn", r"MKL-DNN v([\d.]+)"), ("mkl", r"Math Kernel Library Version ([\d.]+)")):
            match = re.search(pattern, built)
            if match:
                found[name] = match.group(1).rstrip(".")
        if torch.version.cuda:
            found["cuda"] = torch.version.cuda
            if torch.backends.cudnn.is_available():
                found["cudnn"] = str(torch.backends.cudnn.version())
        return found

    def settings(self):
        """Return the settings in force that can make a difference to speed or results."""
        torch = self.torch
        cudnn = torch.backends.cudnn
        return {
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
            "cores": hooks.cores(),
            "onednn": bool(torch.backends.mkldnn.is_available() and getattr(torch.backends.mkldnn, "enabled", True)),
            "default_dtype": str(torch.get_default_dtype()).replace("torch.", ""),
            "matmul_precision": torch.get_float32_matmul_precision(),
            "tf32_matmul": bool(torch.backends.cuda.matmul.allow_tf32),
            "tf32_cudnn": bool(cudnn.allow_tf32),
            "cudnn_benchmark": bool(cudnn.benchmark),
            "cudnn_deterministic": bool(cudnn.deterministic),
            "deterministic_algorithms": bool(torch.are_deterministic_algorithms_enabled()),
            "anomaly_detection": bool(torch.is_anomaly_enabled()),
            "profiler": bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False)),
            "memory_format": self._memory_format(),
            "execution": self._execution(),
        }

    def _memory_format(self):
        """Return the layout of the model's images: that of its convolutions' weights, else PyTorch's own."""
        channels_last = self.torch.channels_last
        for parameter in self.model.parameters() if self.model is not None else ():
            if parameter.dim() == 4 and not parameter.is_contiguous():
                if parameter.is_contiguous(memory_format=channels_last):
                    return "channels last"
        return "channels first"

    def _execution(self):
        """Return how operators are executed: one by one, or as what was compiled, by which means."""
        compiled = list(self.compiled)
        if not compiled and self.model is not None and hasattr(self.model, "_orig_mod"):
            compiled = ["torch.compile"]
        switched_off = any(os.environ.get(name) == "1" for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"))
        if switched_off:
            compiled = [text for text in compiled if not text.startswith("torch.compile")]
        return "compiled: " + ", ".join(compiled) if compiled else "eager"

    def attach_layers(self, program):
        """Hook the program's model, loss and optimizer and backward itself; return how layers and phases are found."""
        self.model = program.model
        backward = BackwardLayers(self.recorder, self.torch)
        mark(program.model, ROOT)
        for name, module in program_layers(program):
            mark(module, name)
        if isinstance(program.loss, self.torch.nn.Module):
            mark(program.loss, "loss")
        self._attach_calls(backward, self.torch.nn.Module)
        self._attach_backward(backward)
        self._attach_optimizer(program.optimizer)
        self._attach_synchronisation()
        return {
            "layers": "calls of modules; backward by hooks on the tensors between them",
            "phases": "calls of the model, Tensor.backward, the optimizer's step and zero_grad",
        }

    def _attach_calls(self, backward, owner):
        """Wrap the call of a class, nn.Module's: marked ones get their range, others cost one look at their attributes."""
        push, pop, enabled = self.recorder.push, self.recorder.pop, self.torch.is_grad_enabled
        original = owner.__call__

        @functools.wraps(original)
        def call(module, *arguments, **keywords):
            layer = module.__dict__.get(_MARK)
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

    def _attach_backward(self, backward):
        recorder, original = self.recorder, self.torch.Tensor.backward

        @functools.wraps(original)
        def traced(*arguments, **keywords):
            recorder.push("phase", "backward", phase="backward")
            backward.thread = threading.get_ident()
            try:
                return original(*arguments, **keywords)
            finally:
                backward.close()
                backward.thread = None
                recorder.pop()

        self.torch.Tensor.backward = traced

    def _attach_optimizer(self, optimizer, names=("step", "zero_grad")):
        for name in names:
            setattr(optimizer, name, self.recorder.ranged(getattr(optimizer, name), "phase", "optimizer " + name, "optimizer"))

    def _attach_synchronisation(self):
        """Name the calls that bring a value to the host: waits on a GPU; on a CPU, which has it, only calls like others.

        Those are too short to be worth their ranges in the layers pass. Collective operations wait for other ranks everywhere.
        """
        distributed = self.torch.distributed
        for name in COLLECTIVE if ranks_of(self.torch) > 1 else ():
            setattr(distributed, name, self.recorder.ranged(getattr(distributed, name), "sync", name, "other"))
        if not self._on_cuda() and self.spec["pass"] != "kernels":
            return
        category = "sync" if self._on_cuda() else "phase"
        for name in SYNCHRONISING:
            setattr(self.torch.Tensor, name, self.recorder.ranged(getattr(self.torch.Tensor, name), category, name, "other"))

    def _on_cuda(self):
        return str(self.spec.get("device") or "cpu").startswith("cuda")

    def start_operators(self, program):
        """Start torch.profiler in the kernels pass; the ranges of the layers pass need nothing more."""
        if self.spec["pass"] != "kernels":
            return
        profiler = self.torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        if self._on_cuda() and self.spec.get("device_profiler", True):  # else another collector has CUPTI
            activities.append(profiler.ProfilerActivity.CUDA)
        self.profiler = profiler.profile(activities=activities, record_shapes=True)
        self.profiler.start()

    def stop_operators(self, name=TRACE_FILE):
        """Stop the profiler and write its chrome trace under this name; return the names of the files written."""
        if self.profiler is None:
            return []
        profiler, self.profiler = self.profiler, None
        profiler.stop()
        profiler.export_chrome_trace(os.path.join(self.spec["folder"], name))
        profiler.profiler = None  # what was recorded goes now: the object around it refers to itself
        return [name]

    def replayer(self, program, layer, step):
        """Return a function that runs one layer alone, with what one ordinary step gave it; raise CannotReplay."""
        self.model = program.model
        if self._execution() != "eager":
            raise hooks.CannotReplay("the model is %s, and so has no layers that run alone" % self._execution())
        module = dict(program_layers(program)).get(layer)
        if module is None:
            raise hooks.CannotReplay("the model has no module of this name")
        wait = self.torch.cuda.synchronize if self._on_cuda() else lambda: None
        return pytorch_replay.replayer(self.torch, module, step, wait)
