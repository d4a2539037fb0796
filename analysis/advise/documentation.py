"""Pages of documentation for advice whose rule names none, by topic and framework (keys as in Subject.kinds)."""

from __future__ import annotations

from kernelscope.analysis.advise.subject import Subject

_TUNING = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
_PROFILER = "https://docs.pytorch.org/tutorials/recipes/recipes/profiler_recipe.html"
_DATA = "https://docs.pytorch.org/docs/stable/data.html"
_TENSORFLOW = "https://www.tensorflow.org/guide/gpu_performance_analysis"
_PROFILER_OF_TENSORFLOW = "https://www.tensorflow.org/guide/profiler"
_JAX = "https://docs.jax.dev/en/latest/profiling.html"
_JIT = "https://docs.jax.dev/en/latest/jit-compilation.html"
_ONNX = "https://onnxruntime.ai/docs/performance/"
_ONNX_THREADS = "https://onnxruntime.ai/docs/performance/tune-performance/threading.html"
_MXNET = "https://mxnet.apache.org/versions/1.9.1/api/faq/perf"
_HIP = "https://rocm.docs.amd.com/projects/HIP/en/latest/how-to/performance_guidelines.html"
_CUDA = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/"
_NSIGHT = "https://docs.nvidia.com/nsight-systems/UserGuide/"
_CONVOLUTIONS = "https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/"
_PRODUCTS = "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/"
_OPENMP = "https://gcc.gnu.org/onlinedocs/libgomp/OMP_005fNUM_005fTHREADS.html"
_NUMPY = "https://numpy.org/doc/stable/user/basics.broadcasting.html"
_QUANTISED = "https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html"
_ON_AMD = "on an AMD GPU"
_OTHERS = (_ON_AMD, "on an NPU", "on another accelerator")  # no devices of NVIDIA
_OF_NVIDIA = ("https://docs.nvidia.com/", "https://developer.nvidia.com/")

_FRAMEWORKS = {
    "tensorflow 1": "",
    "tensorflow, on the host": _PROFILER_OF_TENSORFLOW,
    "tensorflow": _TENSORFLOW,
    "jax": _JAX,
    "onnxruntime": _ONNX,
    "mxnet": _MXNET,
}
_OF_DEVICE = {"pytorch": _TUNING, **_FRAMEWORKS, _ON_AMD: _HIP, "": _CUDA}
_OF_HOST = {
    "pytorch": _PROFILER,
    **_FRAMEWORKS,
    "tensorflow": _PROFILER_OF_TENSORFLOW,
    _ON_AMD: _HIP,
    "": _NSIGHT,
}
_OF_KERNELS = {_ON_AMD: _HIP, "": _CUDA}
_ON_PROCESSORS = {"pytorch": _TUNING, **_FRAMEWORKS, "": ""}
_COMMUNICATION = {
    "pytorch": "https://docs.pytorch.org/docs/stable/distributed.html",
    "tensorflow": "https://www.tensorflow.org/guide/distributed_training",
    "jax": "https://docs.jax.dev/en/latest/multi_process.html",
    _ON_AMD: "https://rocm.docs.amd.com/projects/rccl/en/latest/",
    "": "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/index.html",
}
_THREADS = {
    "pytorch": "https://docs.pytorch.org/docs/stable/generated/torch.set_num_threads.html",
    "tensorflow": "https://www.tensorflow.org/api_docs/python/tf/config/threading",
    "onnxruntime": _ONNX_THREADS,
    "mxnet": _MXNET,
    "": _OPENMP,
}
_COMPILES = {
    "pytorch": "https://docs.pytorch.org/docs/stable/torch.compiler.html",
    "tensorflow 1": "",
    "tensorflow": "https://www.tensorflow.org/guide/function",
    "jax": _JIT,
    "onnxruntime": _ONNX,
    "mxnet": _MXNET,
    "": "",
}
PAGES: dict[str, dict[str, str]] = {
    "allocator": {"pytorch": "https://docs.pytorch.org/docs/stable/notes/cuda.html", **_FRAMEWORKS, **_OF_KERNELS},
    "alignment": {_ON_AMD: _HIP, "": _PRODUCTS},
    "attention": _COMPILES,
    "broadcast": {"pytorch": "https://docs.pytorch.org/docs/stable/notes/broadcasting.html", "": _NUMPY},
    "casts": {"pytorch": "https://docs.pytorch.org/docs/stable/amp.html", **_OF_DEVICE},
    "communication": _COMMUNICATION,
    "compilation": _COMPILES,
    "constant products": _COMPILES,
    "convolution algorithm": {"pytorch": _TUNING, "": _CONVOLUTIONS},
    "copies": _OF_DEVICE,
    "copies within the device": _OF_DEVICE,
    "debugging mode": {
        "pytorch": _TUNING,
        "jax": "https://docs.jax.dev/en/latest/debugging/flags.html",
        "tensorflow": _TENSORFLOW,
        "": "",
    },
    "dispatch": _COMPILES,
    "double precision": {
        "pytorch": "https://docs.pytorch.org/docs/stable/generated/torch.set_default_dtype.html",
        "jax": "https://docs.jax.dev/en/latest/notebooks/Common_Gotchas_in_JAX.html",
        **_OF_KERNELS,
    },
    "embedding gradients": {"pytorch": "https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html", "": ""},
    "fallback code": {"": ""},
    "fusion": {**_COMPILES, **_OF_KERNELS, "tensorflow": "https://openxla.org/xla"},
    "gaps between kernels": _OF_HOST,
    "host-bound": _OF_HOST,
    "input pipeline": {"pytorch": _DATA, "tensorflow": "https://www.tensorflow.org/guide/data_performance", "": ""},
    "instructions": _ON_PROCESSORS,
    "layout": {
        "pytorch": "https://docs.pytorch.org/docs/stable/tensor_view.html",
        **_FRAMEWORKS,
        **_OF_KERNELS,
    },
    "local memory": _OF_KERNELS,
    "loop over parameters": {"pytorch": "https://docs.pytorch.org/docs/stable/optim.html", **_COMPILES},
    "loop over samples": {
        "pytorch": "https://docs.pytorch.org/docs/stable/generated/torch.func.vmap.html",
        "jax": "https://docs.jax.dev/en/latest/automatic-vectorization.html",
        "tensorflow": "https://www.tensorflow.org/api_docs/python/tf/vectorized_map",
        "": "",
    },
    "matrix-vector products": _OF_DEVICE,
    "mixed precision": {"": "https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/"},
    "occupancy": {**_OF_KERNELS, "": f"{_CUDA}#occupancy"},
    "oneDNN": {"": "https://uxlfoundation.github.io/oneDNN/"},
    "operators on the host": {**_FRAMEWORKS, "": ""},
    "optimizer": {
        "pytorch": "https://docs.pytorch.org/docs/stable/optim.html",
        "tensorflow": _TENSORFLOW,
        "jax": _JIT,
        "mxnet": _MXNET,
        "": "",
    },
    "oversubscribed cores": _THREADS,
    "page faults": {"": "https://developer.nvidia.com/blog/unified-memory-cuda-beginners/"},
    "python": _OF_HOST,
    "python loop": {"": "https://numpy.org/doc/stable/user/absolute_beginners.html"},
    "quantisation": {
        "onnxruntime": _QUANTISED,
        "": "",
    },
    "roofline": {_ON_AMD: _HIP, "": _PRODUCTS},
    "shared device": {"": "https://docs.nvidia.com/deploy/mps/index.html"},
    "small batch": _ON_PROCESSORS,
    "small kernels": {_ON_AMD: _HIP, "": _CUDA},
    "small operators": _COMPILES,
    "smaller parts": {"": "https://docs.python.org/3/library/profile.html"},
    "steps that get longer": {"pytorch": "https://docs.pytorch.org/docs/stable/notes/faq.html", "": ""},
    "synchronisation": _OF_HOST,
    "tensor cores": {"": "https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/"},
    "threads": _THREADS,
    "unknown copies": _OF_HOST,
    "zeroed gradients": {
        "pytorch": "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
        "": "",
    },
}
WITHOUT = {  # topics that may have no page, and why
    "embedding gradients": "only PyTorch's documentation has a page",
    "fallback code": "which code ran is oneDNN's own choice",
    "heap": "its rule names the page",
    "instructions": "vector instructions of processors are no framework's subject",
    "pooling": "its rule names the page where one fits",
    "product without a library": "its rule names the page of the device's library, if it is known",
    "quantisation": "only ONNX Runtime's documentation has a page",
    "tensors that grow": "its rule names the page",
    "whole loops in each step": "its rule names the page",
}


def page(subject: Subject, topic: str) -> str | None:
    """Return the address of a topic's page for the subject's framework and device; None if there is none, see WITHOUT."""
    pages = PAGES.get(topic, {})
    found = next((pages[key] for key in subject.kinds if key in pages), "")
    elsewhere = subject.on_host or any(one in subject.kinds for one in _OTHERS)
    return None if not found or (elsewhere and found.startswith(_OF_NVIDIA)) else found
