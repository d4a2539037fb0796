"""Layers as calls of cuDNN and cuBLAS, written as a user of the C interfaces would: descriptors and memory are created once."""

import ctypes
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy

from kernelscope.workloads.cudnn import cuda
from kernelscope.workloads.networks import Array

_ONE, _ZERO = ctypes.c_float(1.0), ctypes.c_float(0.0)
_CANDIDATES = 8  # the most algorithms requested from cuDNN's heuristics


class Tensor(object):
    """Device memory in float32 with its sizes [batch, channels, height, width] and cuDNN's descriptor."""

    def __init__(self, library: Any, sizes: Sequence[int]) -> None:
        self.library = library
        self.sizes = tuple(sizes) + (1,) * (4 - len(sizes))
        self.bytes = ctypes.c_size_t(4 * int(numpy.prod(self.sizes)))
        self.place = cuda.created(library.cudaMalloc, self.bytes)
        self.descriptor = cuda.created(library.cudnnCreateTensorDescriptor)
        library.cudnnSetTensor4dDescriptor(self.descriptor, cuda.NCHW, cuda.FLOAT, *self.sizes)

    def show(self, values: Array) -> None:
        """Copy a numpy array from the host into the tensor."""
        host = ctypes.c_void_p(values.ctypes.data)
        self.library.cudaMemcpy(self.place, host, self.bytes, cuda.HOST_TO_DEVICE)


class Builder(object):
    """Collects a network's calls. steps: (layer, call) in the order of execution. Its methods raise CudaError."""

    def __init__(self) -> None:
        self.library = cuda.Library()
        self.cudnn = cuda.created(self.library.cudnnCreate)
        self.cublas = cuda.created(self.library.cublasCreate)
        self.steps: List[Tuple[str, Callable[[], Any]]] = []
        self.shapes: Dict[str, Sequence[int]] = {}  # layer -> sizes of its result
        self.algorithms: Dict[str, int] = {}  # layer -> number of the convolution's algorithm

    def plain(self, sizes: Sequence[int], values: Optional[Array] = None) -> Tensor:
        """Return a new tensor on the device; values: a numpy array to copy there."""
        tensor = Tensor(self.library, sizes)
        if values is not None:
            tensor.show(numpy.ascontiguousarray(values))
        return tensor

    def append(self, layer: str, sizes: Sequence[int], function: Callable[..., Any], *arguments: Any) -> None:
        """Append a layer's call, whose result has these sizes."""
        self.shapes[layer] = sizes
        self.steps.append((layer, cuda.bound(function, *arguments)))

    def wait(self) -> None:
        """Wait for the launched work."""
        self.library.cudaDeviceSynchronize()

    def convolution(self, layer: str, source: Tensor, weight: Array, bias: Array, padding: int) -> Tensor:
        """Append a convolution of stride 1 with bias; return its result."""
        library = self.library
        batch, _, height, width = source.sizes
        outputs, _, kernel, _ = weight.shape
        result = self.plain((batch, outputs, height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1))
        weights = self.plain(weight.shape, weight)
        filters = cuda.created(library.cudnnCreateFilterDescriptor)
        library.cudnnSetFilter4dDescriptor(filters, cuda.FLOAT, cuda.NCHW, *weight.shape)
        problem = cuda.created(library.cudnnCreateConvolutionDescriptor)
        library.cudnnSetConvolution2dDescriptor(problem, padding, padding, 1, 1, 1, 1, cuda.CROSS_CORRELATION, cuda.FLOAT)
        library.cudnnSetConvolutionMathType(problem, cuda.FMA_MATH)
        chosen = self._algorithm(source, filters, problem, result)
        self.algorithms[layer] = chosen.algorithm
        workspace = cuda.created(library.cudaMalloc, ctypes.c_size_t(max(chosen.memory, 1)))
        self.append(
            layer,
            result.sizes,
            library.cudnnConvolutionForward,
            self.cudnn,
            ctypes.byref(_ONE),
            source.descriptor,
            source.place,
            filters,
            weights.place,
            problem,
            chosen.algorithm,
            workspace,
            ctypes.c_size_t(chosen.memory),
            ctypes.byref(_ZERO),
            result.descriptor,
            result.place,
        )
        return self._biased(layer, result, bias)

    def _algorithm(self, source: Tensor, filters: Any, problem: Any, result: Tensor) -> Any:
        """Return the float32 algorithm that cuDNN's heuristics rank first."""
        found, count = (cuda.Performance * _CANDIDATES)(), ctypes.c_int()
        self.library.cudnnGetConvolutionForwardAlgorithm_v7(
            self.cudnn, source.descriptor, filters, problem, result.descriptor, _CANDIDATES, ctypes.byref(count), found
        )
        usable = [one for one in found[: count.value] if one.status == 0 and one.math in (0, cuda.FMA_MATH)]
        if not usable:
            raise cuda.CudaError("cuDNN has no float32 algorithm for this convolution")
        return usable[0]

    def _biased(self, layer: str, result: Tensor, bias: Array) -> Tensor:
        vector = self.plain((1, len(bias)), bias)
        self.append(
            layer,
            result.sizes,
            self.library.cudnnAddTensor,
            self.cudnn,
            ctypes.byref(_ONE),
            vector.descriptor,
            vector.place,
            ctypes.byref(_ONE),
            result.descriptor,
            result.place,
        )
        return result

    def inner_product(self, layer: str, source: Tensor, weight: Array, bias: Array) -> Tensor:
        """Append a dense layer over all of a sample's values; return its result [batch, outputs]."""
        outputs, inputs = weight.shape
        batch = source.sizes[0]
        result, weights = self.plain((batch, outputs)), self.plain(weight.shape, weight)
        # cuBLAS is column-major: its result [outputs, batch] is our [batch, outputs]
        self.append(
            layer,
            result.sizes,
            self.library.cublasSgemm,
            self.cublas,
            cuda.TRANSPOSED,
            cuda.NOT_TRANSPOSED,
            outputs,
            batch,
            inputs,
            ctypes.byref(_ONE),
            weights.place,
            inputs,
            source.place,
            inputs,
            ctypes.byref(_ZERO),
            result.place,
            outputs,
        )
        return self._biased(layer, result, bias)

    def tanh(self, layer: str, source: Tensor) -> Tensor:
        """Append a hyperbolic tangent in place; return the tensor."""
        activation = cuda.created(self.library.cudnnCreateActivationDescriptor)
        self.library.cudnnSetActivationDescriptor(activation, cuda.TANH, cuda.NO_NAN, ctypes.c_double(0.0))
        function = self.library.cudnnActivationForward
        return self._applied(layer, function, activation, source, source)

    def average_pooling(self, layer: str, source: Tensor) -> Tensor:
        """Append an average pooling of 2x2 windows; return its result."""
        batch, channels, height, width = source.sizes
        pooling = cuda.created(self.library.cudnnCreatePoolingDescriptor)
        mode = (cuda.AVERAGE_WITHOUT_PADDING, cuda.NO_NAN)
        self.library.cudnnSetPooling2dDescriptor(pooling, *(mode + (2, 2, 0, 0, 2, 2)))
        result = self.plain((batch, channels, height // 2, width // 2))
        return self._applied(layer, self.library.cudnnPoolingForward, pooling, source, result)

    def _applied(self, layer: str, function: Callable[..., Any], description: Any, source: Tensor, result: Tensor) -> Tensor:
        """Append a call that reads one tensor and writes another, or the same; return the result."""
        self.append(
            layer,
            result.sizes,
            function,
            self.cudnn,
            description,
            ctypes.byref(_ONE),
            source.descriptor,
            source.place,
            ctypes.byref(_ZERO),
            result.descriptor,
            result.place,
        )
        return result

    def output(self, layer: str, source: Tensor, values: Array) -> None:
        """Set `fetch`: it copies a result into a numpy array and waits for it."""
        target = ctypes.c_void_p(values.ctypes.data)
        self.fetch = cuda.bound(self.library.cudaMemcpy, target, source.place, source.bytes, cuda.DEVICE_TO_HOST)
