"""PyTorch itself, for workloads and scripts: its versions and settings, how code was compiled, and torch.profiler."""

import functools
import gc
import re
import sys
from typing import Any, Callable, Dict, List, Optional

from kernelscope.tracer.inside.frameworks.pytorch.objects import parameters, stored
from kernelscope.tracer.inside.frameworks.workload import cores
from kernelscope.tracer.inside.own import os
from kernelscope.tracer.inside.packing import pack
from kernelscope.tracer.inside.profiling.patches import Patches
from kernelscope.tracer.inside.profiling.printed import Unrecorded
from kernelscope.tracer.inside.ranges import Recorder

TRACE_FILE = "operators.pt.trace.json.gz"
_COMPILING_OPTIONS = ("backend", "mode", "fullgraph", "dynamic", "disable")  # of torch.compile
COLLECTIVE = ("all_gather", "all_reduce", "barrier", "broadcast", "gather", "reduce")  # functions of torch.distributed
SYNCHRONISING = ("item", "cpu", "numpy", "tolist")  # methods of a tensor that wait for its value


class Library(object):
    """PyTorch as imported. model: the model whose layout and compilation are reported as settings, None if unknown."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.model: Any = None
        # what a pass does before and after an optimizer's step: it may change the step's arguments
        self.before_optimizer: Optional[Callable[[Any, Any], Any]] = None
        self.after_optimizer: Optional[Callable[[], None]] = None
        self.compiled: List[Any] = []  # the functions that compiled code, with their options, in order
        self._profiler: Any = None

    def notice_compiling(self) -> None:
        """Remember which functions compile code, whether models or functions that call them."""
        torch = self.torch

        def noticing(original: Callable[..., Any], name: Any) -> Callable[..., Any]:
            @functools.wraps(original)
            def compiling(*arguments: Any, **keywords: Any) -> Any:
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

    def compiles(self) -> bool:
        """Return whether the program uses torch.compile: code that it calls is then compiled again if any of it changes."""
        module = sys.modules.get("torch._dynamo.eval_frame")  # also loaded, without a backend, by optimizers
        known = list(getattr(module, "cached_backends", {}).values()) + [getattr(module, "most_recent_backend", None)]
        return any(backend is not None for backend in known)

    def versions(self) -> Dict[str, Any]:
        """Return the versions of torch, numpy, oneDNN and MKL, and of CUDA and cuDNN if this build has them."""
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

    def settings(self) -> Dict[str, Any]:
        """Return the current settings that can affect speed or results; None for those that this release does not report."""
        torch = self.torch
        cudnn = torch.backends.cudnn
        return {
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
            "cores": cores(),
            "onednn": bool(torch.backends.mkldnn.is_available() and getattr(torch.backends.mkldnn, "enabled", True)),
            "default_dtype": str(torch.get_default_dtype()).replace("torch.", ""),
            "matmul_precision": _asked(torch, "get_float32_matmul_precision"),
            "tf32_matmul": getattr(getattr(torch.backends.cuda, "matmul", None), "allow_tf32", None),
            "tf32_cudnn": getattr(cudnn, "allow_tf32", None),
            "cudnn_benchmark": bool(cudnn.benchmark),
            "cudnn_deterministic": bool(cudnn.deterministic),
            "deterministic_algorithms": _asked(torch, "are_deterministic_algorithms_enabled"),
            "anomaly_detection": _asked(torch, "is_anomaly_enabled"),
            "profiler": bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False)),
            "memory_format": self._memory_format(),
            "execution": self.execution(),
        }

    def _memory_format(self) -> str:
        """Return the memory format of the model's images: that of its convolutions' weights, otherwise PyTorch's default."""
        channels_last = self.torch.channels_last
        for parameter in parameters(self.model) if self.model is not None else ():
            if parameter.dim() == 4 and not parameter.is_contiguous():
                if parameter.is_contiguous(memory_format=channels_last):
                    return "channels last"
        return "channels first"

    def execution(self) -> str:
        """Return how operators are executed: eagerly, or compiled and by what."""
        compiled = list(self.compiled)
        if not compiled and self.model is not None and stored(self.model, "_orig_mod") is not None:
            compiled = ["torch.compile"]
        switched_off = any(os.environ.get(name) == "1" for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"))
        if switched_off:
            compiled = [text for text in compiled if not text.startswith("torch.compile")]
        return "compiled: " + ", ".join(compiled) if compiled else "eager"

    def refuse_a_second_profiler(self, prepared: bool = False) -> None:
        """Raise Unrecorded if the script's own profiler runs, which would see what we call; with `prepared`, if it is about to.

        In the warm-up of its schedule it is prepared, which only the object itself shows; starting ours would end that.
        """
        module = self.torch.autograd.profiler
        if getattr(module, "_is_profiler_enabled", False) or (prepared and any(map(_is_prepared, _all_of(module.profile)))):
            raise Unrecorded("the script uses torch.profiler itself, and only one can run")

    def start_profiler(self, on_gpu: bool) -> None:
        """Start torch.profiler. on_gpu: whether it also records GPU kernels; no other collector may then use CUPTI."""
        profiler = self.torch.profiler
        activities = [profiler.ProfilerActivity.CPU] + [profiler.ProfilerActivity.CUDA] * on_gpu
        self._profiler = profiler.profile(activities=activities, record_shapes=True)
        # it warns that it clears events, although the program asked for none. A warning filter would make Python forget which
        # warnings the program has already shown: they would appear again
        silent = Patches()
        module = sys.modules.get(profiler.profile.__module__)
        for name in ("_warn_once", "warn"):
            if hasattr(module, name):
                silent.set(module, name, lambda *arguments, **keywords: None)
        try:
            self._profiler.start()
        finally:
            silent.undo()

    def stop_profiler(self, folder: str, name: Optional[str] = TRACE_FILE) -> List[str]:
        """Stop the profiler and write its Chrome trace under this name, if any; return the names of the files written."""
        profiler, self._profiler = self._profiler, None
        profiler.stop()
        if name is not None:
            plain = os.path.join(folder, name[: -len(".gz")])
            profiler.export_chrome_trace(plain)
            pack(plain, 9)
        profiler.profiler = None  # frees the records now: the object around them refers to itself
        return [] if name is None else [name]

    def range_synchronisation(self, patches: Patches, recorder: Recorder, on_gpu: bool, kernels: bool) -> None:
        """Put ranges around the calls that read a value on the host: they wait for a GPU; on a host tensor they do not wait.

        Those are too short to be worth a range in the layers pass or if a GPU is used: Adam makes two for each parameter.
        """
        for name in SYNCHRONISING:
            if on_gpu:
                patches.wrap(self.torch.Tensor, name, _of_gpus(recorder.around("sync", name, "other")))
            elif kernels:
                patches.wrap(self.torch.Tensor, name, recorder.around("phase", name, "other"))


def _of_gpus(ranged: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper that puts a range, as `ranged` does, around calls of a method for GPU tensors only."""

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        inside = ranged(original)

        def called(tensor: Any, *arguments: Any, **keywords: Any) -> Any:
            return (inside if tensor.is_cuda else original)(tensor, *arguments, **keywords)

        return called

    return wrapped


def _all_of(kind: type) -> List[Any]:
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]


def _is_prepared(profiler: Any) -> bool:
    """Return whether a torch.autograd profiler has begun and not ended."""
    known = vars(profiler)
    return bool(known.get("enabled") and known.get("entered")) and known.get("kineto_results") is None


def _asked(owner: Any, name: str) -> Any:
    """Return the result of a function of this name; None if this release has no such function."""
    function = getattr(owner, name, None)
    return None if function is None else function()
