"""PyTorch itself, whoever uses it: its versions, the settings in force, how code was compiled, and torch.profiler."""

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
    """PyTorch as it was imported. model: whose layout and compilation are settings, None where none is known."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.model: Any = None
        self.compiled: List[Any] = []  # how code was compiled, by which function, in order
        self._profiler: Any = None

    def notice_compiling(self) -> None:
        """Keep by which functions code is compiled: models may be, or functions that call them."""
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

    def versions(self) -> Dict[str, Any]:
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

    def settings(self) -> Dict[str, Any]:
        """Return the settings in force that can make a difference to speed or results; None what this release does not tell."""
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
        """Return the layout of the model's images: that of its convolutions' weights, else PyTorch's own."""
        channels_last = self.torch.channels_last
        for parameter in parameters(self.model) if self.model is not None else ():
            if parameter.dim() == 4 and not parameter.is_contiguous():
                if parameter.is_contiguous(memory_format=channels_last):
                    return "channels last"
        return "channels first"

    def execution(self) -> str:
        """Return how operators are executed: one by one, or as what was compiled, by which means."""
        compiled = list(self.compiled)
        if not compiled and self.model is not None and stored(self.model, "_orig_mod") is not None:
            compiled = ["torch.compile"]
        switched_off = any(os.environ.get(name) == "1" for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"))
        if switched_off:
            compiled = [text for text in compiled if not text.startswith("torch.compile")]
        return "compiled: " + ", ".join(compiled) if compiled else "eager"

    def refuse_a_second_profiler(self, prepared: bool = False) -> None:
        """Raise Unrecorded where the script's own profiler runs, which would see what we call; prepared: or is about to.

        In the warm-up of its schedule it is prepared, which nothing but the object itself tells: ours would end that.
        """
        module = self.torch.autograd.profiler
        if getattr(module, "_is_profiler_enabled", False) or (prepared and any(map(_is_prepared, _all_of(module.profile)))):
            raise Unrecorded("the script uses torch.profiler itself, and only one can run")

    def start_profiler(self, on_gpu: bool) -> None:
        """Start torch.profiler. on_gpu: whether it records a GPU's kernels, too; then no other collector may have CUPTI."""
        profiler = self.torch.profiler
        activities = [profiler.ProfilerActivity.CPU] + [profiler.ProfilerActivity.CUDA] * on_gpu
        self._profiler = profiler.profile(activities=activities, record_shapes=True)
        # it warns that it clears events, which the program asked for none of. A filter for that would let Python forget which
        # warnings the program has shown: they would come again
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
        """Stop the profiler and write its chrome trace under this name, if any; return the names of the files written."""
        profiler, self._profiler = self._profiler, None
        profiler.stop()
        if name is not None:
            plain = os.path.join(folder, name[: -len(".gz")])
            profiler.export_chrome_trace(plain)
            pack(plain, 9)
        profiler.profiler = None  # what was recorded goes now: the object around it refers to itself
        return [] if name is None else [name]

    def range_synchronisation(self, patches: Patches, recorder: Recorder, on_gpu: bool, kernels: bool) -> None:
        """Name the calls that bring a value to the host: waits for a GPU; of a tensor on the host only calls like others.

        Those are too short to be worth their ranges in the layers pass, and beside a GPU: Adam makes two for each parameter.
        """
        for name in SYNCHRONISING:
            if on_gpu:
                patches.wrap(self.torch.Tensor, name, _of_gpus(recorder.around("sync", name, "other")))
            elif kernels:
                patches.wrap(self.torch.Tensor, name, recorder.around("phase", name, "other"))


def _of_gpus(ranged: Callable[..., Any]) -> Callable[..., Any]:
    """Return what puts a range, as `ranged` does, around calls of a method for tensors on a GPU alone."""

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        inside = ranged(original)

        def called(tensor: Any, *arguments: Any, **keywords: Any) -> Any:
            return (inside if tensor.is_cuda else original)(tensor, *arguments, **keywords)

        return called

    return wrapped


def _all_of(kind: type) -> List[Any]:
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]


def _is_prepared(profiler: Any) -> bool:
    """Return whether a profiler of torch.autograd has begun and not ended."""
    known = vars(profiler)
    return bool(known.get("enabled") and known.get("entered")) and known.get("kineto_results") is None


def _asked(owner: Any, name: str) -> Any:
    """Return what a function says; None where this release has none of the name."""
    function = getattr(owner, name, None)
    return None if function is None else function()
