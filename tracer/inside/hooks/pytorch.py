"""PyTorch: ranges around phases and modules, torch.profiler, and the settings that matter.

Layers are the modules without children (and those with parameters of their own). Their forward is between a module's forward
hooks. Their backward is found in the autograd graph: whatever computes a module's gradients runs from the first node that its
output came from until the node that its input came from, because the engine takes nodes in the reverse order of their making.
So the node behind each output opens the layer's backward range and closes the one before. Gradients of the layer's
parameters fall inside; it works for first layers, which have no gradient of their input, and for in-place operations.
"""

import functools
import os
import re
import threading

TRACE_FILE = "operators.pt.trace.json.gz"
_LAYER_OF_NODE = "kernelscope.layer"  # key in a node's metadata
_SYNCHRONISING = ("item", "cpu", "numpy", "tolist")  # methods of a tensor that wait for its value


def environment(pass_name):
    """Return the variables that make oneDNN and MKL print each call; oneDNN with the wall clock's time of its start."""
    if pass_name != "kernels":
        return {}
    return {"ONEDNN_VERBOSE": "1", "ONEDNN_VERBOSE_TIMESTAMP": "1", "MKL_VERBOSE": "1"}


def _tensors(value):
    """Yield the tensors in a module's arguments or results: tensors, sequences and mappings of them."""
    if hasattr(value, "grad_fn"):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            for tensor in _tensors(item):
                yield tensor
    elif isinstance(value, dict):
        for item in value.values():
            for tensor in _tensors(item):
                yield tensor


def layer_modules(root):
    """Return [(name, module)] of what counts as a layer under `root`; a root that is itself a layer has its class's name."""
    found = []
    for name, module in root.named_modules():
        has_children = next(module.children(), None) is not None
        has_parameters = next(module.parameters(recurse=False), None) is not None
        if not has_children or has_parameters:
            found.append((name or type(module).__name__, module))
    return found


class BackwardLayers(object):
    """Ranges for the backward pass of layers, from hooks on nodes of the autograd graph."""

    def __init__(self, recorder, queue_callback):
        self.recorder = recorder
        self.thread = None  # the thread that called backward, while it runs
        self._queue_callback = queue_callback
        self._open = {}  # thread -> layer whose range is open there
        self._openers = {}  # layer -> hook

    def enter(self, inputs):
        """Before a layer runs: backward leaves it at the nodes behind its input, if no layer made those.

        Looked at before, because an in-place operation gives its input the node of its output.
        """
        for tensor in _tensors(inputs):
            node = tensor.grad_fn
            if node is not None and _LAYER_OF_NODE not in node.metadata:
                # made by a function outside of any module, such as an addition: its time is not the layer's
                node.metadata[_LAYER_OF_NODE] = None
                node.register_prehook(self._close_before)

    def leave(self, layer, output):
        """After a layer has run: backward enters it at the nodes behind its output, unless it only passed those through."""
        for tensor in _tensors(output):
            node = tensor.grad_fn
            if node is not None and _LAYER_OF_NODE not in node.metadata:
                node.metadata[_LAYER_OF_NODE] = layer
                node.register_prehook(self._opener(layer))

    def _opener(self, layer):
        hook = self._openers.get(layer)
        if hook is None:

            def hook(gradients):
                self.open(layer)

            self._openers[layer] = hook
        return hook

    def open(self, layer):
        """Open the layer's range on this thread, closing what was open; an open range of the same layer goes on."""
        thread = threading.get_ident()
        opened = self._open.get(thread)
        if opened == layer:
            return
        if opened is not None:
            self.recorder.pop()
        elif thread != self.thread:
            self._queue_callback(self.close)  # an engine's thread: nothing of ours runs there when backward ends
        self._open[thread] = layer
        self.recorder.push("layer", layer, layer=layer, phase="backward")

    def close(self):
        """Close the range that is open on this thread, if any."""
        if self._open.pop(threading.get_ident(), None) is not None:
            self.recorder.pop()

    def _close_before(self, gradients):
        self.close()


class Hooks(object):
    """What a pass records of PyTorch; see the package's documentation for the order of calls."""

    def __init__(self, spec, recorder):
        self.spec = spec
        self.recorder = recorder
        self.torch = None
        self.model = None
        self.profiler = None

    def configure(self):
        """Import torch and set the number of threads."""
        import torch

        self.torch = torch
        if self.spec.get("threads"):
            torch.set_num_threads(self.spec["threads"])

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
            "onednn": bool(torch.backends.mkldnn.is_available() and getattr(torch.backends.mkldnn, "enabled", True)),
            "default_dtype": str(torch.get_default_dtype()).replace("torch.", ""),
            "matmul_precision": torch.get_float32_matmul_precision(),
            "tf32_matmul": bool(torch.backends.cuda.matmul.allow_tf32),
            "tf32_cudnn": bool(cudnn.allow_tf32),
            "cudnn_benchmark": bool(cudnn.benchmark),
            "cudnn_deterministic": bool(cudnn.deterministic),
            "deterministic_algorithms": bool(torch.are_deterministic_algorithms_enabled()),
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
        compiled = self.model is not None and hasattr(self.model, "_orig_mod")
        return "compiled" if compiled else "eager"

    def attach_layers(self, program):
        """Hook the program's model, loss and optimizer and backward itself; return how layers and phases are found."""
        self.model = program.model
        backward = self._backward_layers()
        self._attach_forward(program.model, backward)
        if isinstance(program.loss, self.torch.nn.Module):
            self._attach_layer(program.loss, "loss", backward)
        self._attach_backward(backward)
        self._attach_optimizer(program.optimizer)
        self._attach_synchronisation()
        return {
            "layers": "forward hooks of modules; backward by hooks on autograd nodes"
            if backward is not None
            else "forward hooks of modules; no backward layers: autograd nodes take hooks from torch 2.0 on",
            "phases": "the model's forward, Tensor.backward, the optimizer's step and zero_grad",
        }

    def _backward_layers(self):
        if not hasattr(self.torch.autograd.graph.Node, "register_prehook"):
            return None
        return BackwardLayers(self.recorder, self.torch.autograd.Variable._execution_engine.queue_callback)

    def _attach_forward(self, model, backward):
        recorder = self.recorder
        model.register_forward_pre_hook(lambda module, inputs: recorder.push("phase", "forward", phase="forward"))
        for name, module in layer_modules(model):
            self._attach_layer(module, name, backward)
        model.register_forward_hook(lambda module, inputs, output: recorder.pop())

    def _attach_layer(self, module, name, backward):
        push, pop, enabled = self.recorder.push, self.recorder.pop, self.torch.is_grad_enabled

        def enter(module, inputs):
            push("layer", name, layer=name, phase="forward")
            if backward is not None and enabled():
                backward.enter(inputs)

        def leave(module, inputs, output):
            if backward is not None and enabled():
                backward.leave(name, output)
            pop()

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave)

    def _attach_backward(self, backward):
        recorder, original = self.recorder, self.torch.Tensor.backward

        @functools.wraps(original)
        def traced(*arguments, **keywords):
            recorder.push("phase", "backward", phase="backward")
            if backward is not None:
                backward.thread = threading.get_ident()
            try:
                return original(*arguments, **keywords)
            finally:
                if backward is not None:
                    backward.close()
                    backward.thread = None
                recorder.pop()

        self.torch.Tensor.backward = traced

    def _attach_optimizer(self, optimizer):
        for name in ("step", "zero_grad"):
            setattr(optimizer, name, self._ranged(getattr(optimizer, name), "phase", "optimizer " + name, "optimizer"))

    def _attach_synchronisation(self):
        for name in _SYNCHRONISING:
            setattr(self.torch.Tensor, name, self._ranged(getattr(self.torch.Tensor, name), "sync", name, "other"))

    def _ranged(self, function, category, name, phase):
        """Return the function with a range around each call."""
        push, pop = self.recorder.push, self.recorder.pop

        @functools.wraps(function)
        def ranged(*arguments, **keywords):
            push(category, name, phase=phase)
            try:
                return function(*arguments, **keywords)
            finally:
                pop()

        return ranged

    def start_operators(self, program):
        """Start torch.profiler in the kernels pass; the ranges of the layers pass need nothing more."""
        if self.spec["pass"] != "kernels":
            return
        profiler = self.torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        if str(self.spec.get("device") or "cpu").startswith("cuda"):
            activities.append(profiler.ProfilerActivity.CUDA)
        self.profiler = profiler.profile(activities=activities, record_shapes=True)
        self.profiler.start()

    def stop_operators(self):
        """Stop the profiler and write its chrome trace; return the names of the files written."""
        if self.profiler is None:
            return []
        self.profiler.stop()
        self.profiler.export_chrome_trace(os.path.join(self.spec["folder"], TRACE_FILE))
        return [TRACE_FILE]
