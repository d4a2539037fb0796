"""Times CNTK's calls of MKL: BLAS, and the deep-neural-network primitives, which no verbose mode prints.

CNTK 2.7 computes convolutions with the primitives of MKL 2017 and 2018 (mkl_dnn.h). Each primitive is created once, with its
shapes, and executed every step; layout conversions are primitives too. A forward convolution, its data gradient, its weight
gradient and each conversion therefore show separately, with their real start and end. BLAS calls are recorded the same way.

Sources: Intel MKL 2018 Developer Reference, chapter "Deep Neural Network Functions"; reference BLAS (netlib.org/blas).
"""

import ctypes
import json
import re
import threading
from typing import IO, Any, Callable, Dict, Iterable, List, Optional, Sequence

from kernelscope.tracer.inside import interpose
from kernelscope.tracer.inside.clock import now_ns
from kernelscope.tracer.inside.ranges import native_thread_id

CALLER, CALLEE = "libCntk.Math", "libmklml_intel.so"

_INT, _SIZE, _POINTER = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_SIZES = ctypes.POINTER(ctypes.c_size_t)
_OFFSETS = ctypes.POINTER(ctypes.c_int)
_HANDLE = ctypes.POINTER(ctypes.c_void_p)  # where a created object's handle is put
_TYPES = (("_F32", "f32"), ("_F64", "f64"))
_CONVOLUTIONS = {
    "Forward": "convolution forward",
    "BackwardData": "convolution data gradient",
    "BackwardFilter": "convolution weight gradient",
}
_ALGORITHMS = {0: "gemm", 1: "direct", 2: "fft"}  # dnnAlgorithm_t
_RESOURCES = ("src", "dst", "filter", "bias", "diff_src", "diff_filter", "diff_bias", "diff_dst", "workspace")
_COLUMN_MAJOR = 102  # CBLAS_ORDER
_TRANSPOSE = {111: "N", 112: "T", 113: "C"}  # CBLAS_TRANSPOSE
_FIELDS = ("thread", "start_ns", "end_ns", "function", "kind", "dtype", "problem", "layout", "algorithm", "m", "n", "k")


def convolution_problem(
    source: Sequence[int], result: Sequence[int], weights: Sequence[int], strides: Sequence[int], offsets: Sequence[int]
) -> str:
    """Return a convolution's dimensions as oneDNN writes them. MKL's order of sizes is width, height, channels, samples."""
    parts = ["mb%d_ic%doc%d" % (source[3], source[2], result[2])]
    for axis, letter in ((1, "h"), (0, "w")):
        values = (source[axis], result[axis], weights[axis], strides[axis], -offsets[axis])
        parts.append("i{0}%do{0}%dk{0}%ds{0}%dp{0}%d".format(letter) % values)
    return "_".join(parts)


def plain_layout(sizes: Sequence[int], strides: Sequence[int]) -> str:
    """Return the name of a plain layout: a letter per dimension, slowest-varying first; `a` is the batch dimension."""
    letters = "abcdefgh"[: len(sizes)][::-1]  # MKL counts dimensions from the fastest, letters from the slowest
    order = sorted(range(len(sizes)), key=lambda axis: (strides[axis], axis), reverse=True)
    return "".join(letters[axis] for axis in order)


def version() -> Optional[str]:
    """Return the version of CNTK's bundled MKL, such as 2018.0.3; None if it is not loaded or does not report one."""
    path = interpose.loaded(CALLEE)
    ask = getattr(ctypes.CDLL(path), "MKL_Get_Version_String", None) if path else None
    if ask is None:
        return None
    text = ctypes.create_string_buffer(200)
    ask(text, len(text))
    found = re.search(r"Version (\d+)\.(\d+)(?:\.(\d+)|\s+Update\s+(\d+))?", text.value.decode("ascii", "replace"))
    return ".".join(number for number in found.groups() if number) if found else None


class Calls(object):
    """The recorded calls. A call is recorded only if active() is true when it has returned.

    rows: tuples of the fields in _FIELDS, times in ns. primitives, layouts: what is known by handle.
    """

    def __init__(self, active: Callable[[], bool]) -> None:
        self.active = active
        self.rows: List[Any] = []
        self.primitives: Dict[Any, Any] = {}  # handle -> (function, kind, dtype, problem, layout, algorithm)
        self.layouts: Dict[Any, Any] = {}  # handle -> (sizes or None, name)
        self.library: Any = None
        self._threads: Dict[Any, Any] = {}

    def install(self) -> List[str]:
        """Time CNTK's calls from now on; primitives created earlier are of unknown kind. Return the hooked functions' names."""
        return self.know() + self.time()

    def know(self) -> List[str]:
        """Record each primitive's shapes when it is created, at no cost when it runs; return the names of the hooked functions.

        Returns [] if CNTK or MKL is not loaded, or if calls cannot be intercepted on this platform.
        """
        caller, callee = interpose.loaded(CALLER), interpose.loaded(CALLEE)
        if caller is None or callee is None or not interpose.supported():
            return []
        self.library = interpose.Library(caller, callee)
        return [name for suffix, dtype in _TYPES for name in self._install_creation(suffix, dtype)]

    def time(self) -> List[str]:
        """Time CNTK's calls from now on, after `know`; return the names of the timed functions."""
        if self.library is None:
            return []
        done = [name for suffix, _ in _TYPES for name in self._install_execution(suffix)]
        for letter, dtype, number in (("s", "f32", ctypes.c_float), ("d", "f64", ctypes.c_double)):
            done += self._install_blas(letter, dtype, number)
        return done

    def untime(self, functions: Iterable[str]) -> None:
        """Stop timing these functions."""
        if self.library is not None:
            self.library.restore(functions)

    def _replace(self, symbol: str, result: Any, arguments: Sequence[Any], make: Callable[..., Any]) -> List[str]:
        return [symbol] if self.library.replace(symbol, ctypes.CFUNCTYPE(result, *arguments), make) else []

    def _install_creation(self, suffix: str, dtype: str) -> List[str]:
        done = self._replace(
            "dnnLayoutCreate" + suffix, _INT, (_HANDLE, _SIZE, _SIZES, _SIZES), self._plain_layouts()
        ) + self._replace("dnnLayoutCreateFromPrimitive" + suffix, _INT, (_HANDLE, _POINTER, _INT), self._primitives_layouts())
        tail = (_SIZE, _SIZES, _SIZES, _SIZES, _SIZES, _OFFSETS, _INT)
        for name, kind in _CONVOLUTIONS.items():
            for start, groups in (("dnnConvolutionCreate", ()), ("dnnGroupsConvolutionCreate", (_SIZE,))):
                arguments = (_HANDLE, _POINTER, _INT) + groups + tail
                make = self._convolutions("dnnConvolution" + name, kind, dtype, len(groups))
                done += self._replace(start + name + suffix, _INT, arguments, make)
        done += self._replace("dnnConversionCreate" + suffix, _INT, (_HANDLE, _POINTER, _POINTER), self._conversions(dtype))
        return done + self._replace("dnnDelete" + suffix, _INT, (_POINTER,), self._deletions())

    def _install_execution(self, suffix: str) -> List[str]:
        done = self._replace("dnnExecute" + suffix, _INT, (_POINTER, _POINTER), self._timed_primitive("dnnExecute"))
        arguments = (_POINTER, _POINTER, _POINTER)
        make = self._timed_primitive("dnnConversionExecute")
        return done + self._replace("dnnConversionExecute" + suffix, _INT, arguments, make)

    def _install_blas(self, letter: str, dtype: str, number: Any) -> List[str]:
        matrix = (_POINTER, _INT)
        product = (_INT, _INT, _INT, _INT, _INT, _INT, number) + matrix + matrix + (number,) + matrix
        done = self._replace("cblas_%sgemm" % letter, None, product, self._products("%sgemm" % letter, dtype))
        vectors = {
            "scal": (None, (_INT, number) + matrix, "elementwise"),
            "axpy": (None, (_INT, number) + matrix + matrix, "elementwise"),
            "axpby": (None, (_INT, number) + matrix + (number,) + matrix, "elementwise"),
            "copy": (None, (_INT,) + matrix + matrix, "copy"),
            "dot": (number, (_INT,) + matrix + matrix, "reduction"),
            "asum": (number, (_INT,) + matrix, "reduction"),
            "nrm2": (number, (_INT,) + matrix, "reduction"),
        }
        for name, (result, arguments, kind) in vectors.items():
            make = self._vectors(letter + name, kind, dtype)
            done += self._replace("cblas_" + letter + name, result, arguments, make)
        return done

    # Each of the following methods returns make(original) for Library.replace.

    def _plain_layouts(self) -> Callable[..., Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def create(handle: Any, dimension: int, sizes: Any, strides: Any) -> Any:
                status = original(handle, dimension, sizes, strides)
                if status == 0:
                    sizes, strides = sizes[:dimension], strides[:dimension]
                    self.layouts[handle[0]] = (sizes, plain_layout(sizes, strides))
                return status

            return create

        return make

    def _primitives_layouts(self) -> Callable[..., Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def create(handle: Any, primitive: Any, resource: Any) -> Any:
                status = original(handle, primitive, resource)
                if status == 0:
                    name = _RESOURCES[resource] if 0 <= resource < len(_RESOURCES) else str(resource)
                    self.layouts[handle[0]] = (None, "internal(%s)" % name)
                return status

            return create

        return make

    def _convolutions(self, name: str, kind: str, dtype: str, groups: int) -> Callable[..., Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def create(handle: Any, *arguments: Any) -> Any:
                status = original(handle, *arguments)
                if status == 0:
                    source, result, weights, strides, offsets = arguments[3 + groups : 8 + groups]
                    problem = None
                    if arguments[2 + groups] == 4:  # two spatial dimensions, channels, samples
                        problem = convolution_problem(source[:4], result[:4], weights[:2], strides[:2], offsets[:2])
                    self.primitives[handle[0]] = (name, kind, dtype, problem, None, _ALGORITHMS.get(arguments[1]))
                return status

            return create

        return make

    def _conversions(self, dtype: str) -> Callable[..., Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def create(handle: Any, source: Any, target: Any) -> Any:
                status = original(handle, source, target)
                if status == 0:
                    unknown = (None, "unknown")
                    sizes, source_name = self.layouts.get(source, unknown)
                    other_sizes, target_name = self.layouts.get(target, unknown)
                    sizes = sizes or other_sizes
                    problem = "x".join(str(size) for size in sizes[::-1]) if sizes else None
                    layout = "src %s dst %s" % (source_name, target_name)
                    self.primitives[handle[0]] = ("dnnConversion", "layout", dtype, problem, layout, None)
                return status

            return create

        return make

    def _deletions(self) -> Callable[..., Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def delete(primitive: Any) -> Any:
                self.primitives.pop(primitive, None)  # another primitive may get the same handle
                return original(primitive)

            return delete

        return make

    def _thread(self) -> int:
        identity = threading.get_ident()
        if identity not in self._threads:
            self._threads[identity] = native_thread_id()
        return self._threads[identity]

    def _timed_primitive(self, name: str) -> Callable[..., Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def execute(primitive: Any, *pointers: Any) -> Any:
                start = now_ns()
                status = original(primitive, *pointers)
                end = now_ns()
                if self.active():
                    known = self.primitives.get(primitive, (name, "unknown", None, None, None, None))
                    self.rows.append((self._thread(), start, end) + known + (None, None, None))
                return status

            return execute

        return make

    def _products(self, name: str, dtype: str) -> Callable[..., Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def multiply(order: int, first: int, second: Any, m: int, n: int, k: int, *rest: Any) -> None:
                start = now_ns()
                original(order, first, second, m, n, k, *rest)
                end = now_ns()
                if self.active():
                    if order != _COLUMN_MAJOR:  # the Fortran routine computes the same product, transposed
                        first, second, m, n = second, first, n, m
                    flags = _TRANSPOSE.get(first, "?") + _TRANSPOSE.get(second, "?")
                    problem = "m%d n%d k%d" % (m, n, k)
                    row = (self._thread(), start, end, name, "gemm", dtype, problem, None, flags, m, n, k)
                    self.rows.append(row)

            return multiply

        return make

    def _vectors(self, name: str, kind: str, dtype: str) -> Callable[..., Any]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def compute(count: int, *rest: Any) -> Any:
                start = now_ns()
                result = original(count, *rest)
                end = now_ns()
                if self.active():
                    problem = "n%d" % count
                    self.rows.append((self._thread(), start, end, name, kind, dtype, problem) + (None,) * 5)
                return result

            return compute

        return make

    def write(self, out: IO[bytes]) -> None:
        """Write the calls as JSON Lines to a binary file. Matrix products have their transposition flags in `transpose`."""
        for row in self.rows:
            fields = dict(zip(_FIELDS, row))
            fields["transpose"] = fields.pop("algorithm") if fields["kind"] == "gemm" else None
            fields.setdefault("algorithm", None)
            out.write((json.dumps(fields) + "\n").encode("ascii"))
