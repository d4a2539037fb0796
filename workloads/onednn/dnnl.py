"""The part of oneDNN's C interface that the networks use (dnnl.h of release 3), called with ctypes.

It stands in for a C program's header. A call that fails raises DnnlError with the function's name and the library's status.
"""

import ctypes
import glob
import os
import sys
from typing import Any, Callable

BINDINGS = True  # see workloads.lines

CPU, IN_ORDER = 1, 1  # dnnl_cpu, dnnl_stream_default_flags
FORWARD_INFERENCE = 96
F32 = 3
ANY, X, NC, NCHW = 1, 2, 3, 5  # dnnl_format_tag_t
CONVOLUTION_DIRECT, ELTWISE_TANH, POOLING_AVERAGE = 0x1, 0x21, 0x3FF
SRC_MD, WEIGHTS_MD, DST_MD = 129, 131, 133  # dnnl_query_t
SRC, DST, WEIGHTS, BIAS = 1, 17, 33, 41  # kinds of arguments of a primitive
ALLOCATE = ctypes.c_void_p(-1)  # DNNL_MEMORY_ALLOCATE
_MOST_DIMENSIONS = 12
# libraries that Intel's build needs; the loader does not look for them next to it
_NEEDED = (
    "libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so", "libtbb.so.12", "libhwloc.so.15", "libumf.so.1",
    "libur_loader.so.0", "libsycl.so.9",
)  # fmt: skip
_STATUS = ("success", "out of memory", "invalid arguments", "unimplemented", "last implementation reached", "runtime error")
_RETURNING = {"dnnl_primitive_desc_query_md": ctypes.c_void_p, "dnnl_memory_desc_equal": ctypes.c_int}


class DnnlError(RuntimeError):
    """A call of oneDNN failed."""


class Argument(ctypes.Structure):
    """dnnl_exec_arg_t."""

    _fields_ = [("kind", ctypes.c_int), ("memory", ctypes.c_void_p)]


class Version(ctypes.Structure):
    """dnnl_version_t."""

    _fields_ = [
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    ]


def load() -> Any:
    """Load libdnnl.so from this interpreter's package, with the libraries next to it, else the one that the loader finds.

    Intel's build computes through SYCL, whose CPU device is an OpenCL driver that must be named. Raises OSError without a
    library.
    """
    folder = os.path.join(sys.prefix, "lib")
    driver = os.path.join(folder, "libintelocl.so")
    if os.path.exists(driver):
        os.environ.setdefault("OCL_ICD_FILENAMES", driver)
    for name in _NEEDED:
        for path in sorted(glob.glob(os.path.join(folder, name))):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    found = sorted(glob.glob(os.path.join(folder, "libdnnl.so*")))
    return ctypes.CDLL(found[0] if found else "libdnnl.so.3")


class Library(object):
    """The library. Its functions are methods, named without dnnl_; they raise DnnlError."""

    def __init__(self) -> None:
        self._library = load()

    def version(self) -> Any:
        """Return the library's version and runtimes, as a Version."""
        self._library.dnnl_version.restype = ctypes.POINTER(Version)
        return self._library.dnnl_version().contents

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, "dnnl_" + name)
        returned = _RETURNING.get("dnnl_" + name)
        if returned is not None:
            function.restype = returned
            checked = function
        else:
            function.restype = ctypes.c_int

            def checked(*arguments: Any) -> None:
                status = function(*arguments)
                if status != 0:
                    raise DnnlError("dnnl_%s: %s" % (name, _STATUS[status] if status < len(_STATUS) else status))

        setattr(self, name, checked)
        return checked


def dimensions(*sizes: int) -> Any:
    """Return sizes as dnnl_dims_t."""
    return (ctypes.c_int64 * _MOST_DIMENSIONS)(*sizes)


def created(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that creates an object and returns it through its first argument; return the object."""
    made = ctypes.c_void_p()
    function(ctypes.byref(made), *arguments)
    return made


def bound(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """Return a function without arguments that makes this call, for a call that is repeated in every step."""
    return lambda: function(*arguments)
