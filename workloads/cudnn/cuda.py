"""The part of the CUDA runtime, cuDNN 9 and cuBLAS 12 or 13 that the networks use, called with ctypes.

It stands in for a C program's headers. A call that fails raises CudaError with the function's name and the library's message.
The Python interface of cuDNN's graphs (cudnn-frontend) is not used, because it has no pooling.
"""

import ctypes
import glob
import os
import sys
from typing import Any, Callable, Dict

BINDINGS = True  # see workloads.lines

HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2  # cudaMemcpyKind
NCHW, FLOAT = 0, 0  # cudnnTensorFormat_t, cudnnDataType_t
CROSS_CORRELATION = 1  # cudnnConvolutionMode_t
FMA_MATH = 3  # cudnnMathType_t: products in float32, never in TF32
TANH = 2  # cudnnActivationMode_t
AVERAGE_WITHOUT_PADDING = 2  # cudnnPoolingMode_t
NO_NAN = 0  # cudnnNanPropagation_t: do not propagate
NOT_TRANSPOSED, TRANSPOSED = 0, 1  # cublasOperation_t
# CUDA release -> (folder of its package nvidia-..., prefix of the library's name, its version), in the order of loading
_RELEASES = {
    "12": (
        ("cuda_runtime", "libcudart.so", "12"),
        ("cuda_nvrtc", "libnvrtc.so", "12"),
        ("cublas", "libcublasLt.so", "12"),
        ("cublas", "libcublas.so", "12"),
        ("cudnn", "libcudnn.so", "9"),
    ),
    "13": (
        ("cu13", "libcudart.so", "13"),
        ("cu13", "libnvrtc.so", "13"),
        ("cu13", "libcublasLt.so", "13"),
        ("cu13", "libcublas.so", "13"),
        ("cudnn", "libcudnn.so", "9"),
    ),
}
_WORDS = {"cuda": "cudaGetErrorString", "cudnn": "cudnnGetErrorString", "cublas": "cublasGetStatusString"}


class CudaError(RuntimeError):
    """A call of CUDA, cuDNN or cuBLAS failed."""


class Performance(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t."""

    _fields_ = [
        ("algorithm", ctypes.c_int),
        ("status", ctypes.c_int),
        ("time", ctypes.c_float),
        ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int),
        ("math", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    ]


class Library(object):
    """The libraries. Their functions are methods under their own names without version suffixes; they raise CudaError."""

    def __init__(self) -> None:
        loaded = _loaded()
        self._of = {
            "cuda": loaded["libcudart.so"],
            "cudnn": loaded["libcudnn.so"],
            "cublas": loaded["libcublas.so"],
        }

    def __getattr__(self, name: str) -> Any:
        prefix = next(prefix for prefix in ("cudnn", "cublas", "cuda") if name.startswith(prefix))
        library = self._of[prefix]
        function = getattr(library, _VERSIONED.get(name, name))

        def checked(*arguments: Any) -> None:
            status = function(*arguments)
            if status != 0:
                words = getattr(library, _WORDS[prefix])
                words.restype = ctypes.c_char_p
                raise CudaError("%s: %s" % (name, (words(status) or b"").decode("utf8", "replace") or status))

        setattr(self, name, checked)
        return checked

    def version(self) -> Any:
        """Return cuDNN's version as text."""
        function = self._of["cudnn"].cudnnGetVersion
        function.restype = ctypes.c_size_t
        number = function()
        return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)


_VERSIONED = {"cublasCreate": "cublasCreate_v2", "cublasSgemm": "cublasSgemm_v2", "cublasSetStream": "cublasSetStream_v2"}


def _loaded() -> Dict[str, Any]:
    """Return the libraries of one CUDA release, by name prefix; raise CudaError if no release has them all."""
    failures = []
    for libraries in _RELEASES.values():
        try:
            return {beginning: _load(folder, beginning, number) for folder, beginning, number in libraries}
        except OSError as error:
            failures.append(str(error))
    raise CudaError("%s; install its package with `kernelscope env create cudnn`" % failures[0])


def _load(folder: str, beginning: str, number: str) -> Any:
    """Return a library from this interpreter's packages, else the one that the loader finds; raise OSError without one."""
    name = "%s.%s" % (beginning, number)
    places = [os.path.join(path, "nvidia", folder, "lib", name) for path in sys.path if path]
    found = [path for pattern in places for path in glob.glob(pattern)]
    return ctypes.CDLL(found[0] if found else name, mode=ctypes.RTLD_GLOBAL)


def created(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that creates an object and returns it through its first argument; return the object."""
    made = ctypes.c_void_p()
    function(ctypes.byref(made), *arguments)
    return made


def bound(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Return a function without arguments that makes this call, for a call that is repeated in every step."""
    return lambda: function(*arguments)
