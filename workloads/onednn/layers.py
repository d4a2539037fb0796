"""Layers as oneDNN primitives, written as a user of the C interface would, with memory in oneDNN's layouts, created once."""

import ctypes
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from kernelscope.workloads.networks import Array
from kernelscope.workloads.onednn import dnnl


class Memory(object):
    """A tensor: its descriptor, its sizes and oneDNN's memory object."""

    def __init__(self, library: Any, engine: Any, descriptor: Any, sizes: Sequence[int], handle: Any = dnnl.ALLOCATE) -> None:
        self.descriptor = descriptor
        self.sizes = sizes
        self.object = dnnl.created(library.memory_create, descriptor, engine, handle)
        self._place = library.memory_set_data_handle

    def show(self, values: Array) -> None:
        """Make the tensor use this numpy array, of the same shape and layout, as its memory."""
        self._place(self.object, ctypes.c_void_p(values.ctypes.data))


class Builder(object):
    """Creates a network's primitives. steps: (layer, call) in the order of execution. Its methods raise DnnlError."""

    def __init__(self) -> None:
        self.library = dnnl.Library()
        self.engine = dnnl.created(self.library.engine_create, dnnl.CPU, 0)
        self.stream = dnnl.created(self.library.stream_create, self.engine, dnnl.IN_ORDER)
        self.steps: List[Tuple[str, Callable[[], Any]]] = []
        self.weights: Dict[str, Tuple[Array, Array]] = {}  # layer -> weight and bias whose memory the library uses
        self.shapes: Dict[str, Sequence[int]] = {}  # layer -> sizes of its result
        self.made: List[Any] = []  # objects that must stay alive while the library runs

    def descriptor(self, sizes: Sequence[int], tag: int) -> Any:
        """Return the descriptor of an f32 tensor; tag: its layout."""
        return dnnl.created(self.library.memory_desc_create_with_tag, len(sizes), dnnl.dimensions(*sizes), dnnl.F32, tag)

    def plain(self, sizes: Sequence[int], values: Optional[Array] = None) -> Memory:
        """Return a tensor in the user's layout, channels first; values: the numpy array to use as its memory."""
        tag = {1: dnnl.X, 2: dnnl.NC, 4: dnnl.NCHW}[len(sizes)]
        handle = dnnl.ALLOCATE if values is None else ctypes.c_void_p(values.ctypes.data)
        return Memory(self.library, self.engine, self.descriptor(sizes, tag), sizes, handle)

    def queried(self, description: Any, what: int, sizes: Sequence[int]) -> Memory:
        """Return a new tensor in the layout that a primitive chose; what: which of its tensors (dnnl_query_t)."""
        descriptor = ctypes.c_void_p(self.library.primitive_desc_query_md(description, what, 0))
        return Memory(self.library, self.engine, descriptor, sizes)

    def call(self, description: Any, arguments: List[Tuple[int, Memory]]) -> Callable[[], Any]:
        """Create the primitive of a description; return the call that executes it on these (kind of argument, tensor)."""
        primitive = dnnl.created(self.library.primitive_create, description)
        array = (dnnl.Argument * len(arguments))(*[dnnl.Argument(kind, memory.object) for kind, memory in arguments])
        self.made += [array, arguments]
        return dnnl.bound(self.library.primitive_execute, primitive, self.stream, len(arguments), array)

    def moved(self, source: Memory, target: Memory) -> Callable[[], Any]:
        """Return the call that copies one tensor to another, which may have another layout."""
        description = dnnl.created(
            self.library.reorder_primitive_desc_create, source.descriptor, self.engine, target.descriptor, self.engine, None
        )
        return self.call(description, [(dnnl.SRC, source), (dnnl.DST, target)])

    def fitted(self, layer: str, source: Memory, description: Any, what: int) -> Memory:
        """Return the tensor in the layout that a primitive wants; if that differs, append the copy to the layer's steps."""
        wanted = self.queried(description, what, source.sizes)
        if self.library.memory_desc_equal(source.descriptor, wanted.descriptor):
            return source
        self.steps.append((layer, self.moved(source, wanted)))
        return wanted

    def loaded(self, description: Any, values: Array) -> Memory:
        """Return weights in the layout that a primitive wants, copied there now."""
        plain = self.plain(values.shape, values)
        wanted = self.queried(description, dnnl.WEIGHTS_MD, values.shape)
        self.moved(plain, wanted)()
        self.wait()
        return wanted

    def wait(self) -> None:
        """Wait for the primitives that were executed."""
        self.library.stream_wait(self.stream)

    def convolution(self, layer: str, source: Memory, weight: Array, bias: Array, padding: int) -> Memory:
        """Append a convolution of stride 1 with bias; return its result."""
        batch, _, height, width = source.sizes
        outputs, _, kernel, _ = weight.shape
        sizes = (batch, outputs, height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1)
        description = dnnl.created(
            self.library.convolution_forward_primitive_desc_create,
            self.engine,
            dnnl.FORWARD_INFERENCE,
            dnnl.CONVOLUTION_DIRECT,
            self.descriptor(source.sizes, dnnl.ANY),
            self.descriptor(weight.shape, dnnl.ANY),
            self.descriptor(bias.shape, dnnl.X),
            self.descriptor(sizes, dnnl.ANY),
            dnnl.dimensions(1, 1),
            dnnl.dimensions(0, 0),
            dnnl.dimensions(padding, padding),
            dnnl.dimensions(padding, padding),
            None,
        )
        return self._weighted(layer, description, source, weight, bias, sizes)

    def inner_product(self, layer: str, source: Memory, weight: Array, bias: Array) -> Memory:
        """Append a dense layer over all of a sample's values; return its result [batch, outputs]."""
        weight = weight.reshape((len(weight),) + tuple(source.sizes[1:]))
        sizes = (source.sizes[0], len(weight))
        description = dnnl.created(
            self.library.inner_product_forward_primitive_desc_create,
            self.engine,
            dnnl.FORWARD_INFERENCE,
            self.descriptor(source.sizes, dnnl.ANY),
            self.descriptor(weight.shape, dnnl.ANY),
            self.descriptor(bias.shape, dnnl.X),
            self.descriptor(sizes, dnnl.ANY),
            None,
        )
        return self._weighted(layer, description, source, weight, bias, sizes)

    def _weighted(self, layer: str, description: Any, source: Memory, weight: Array, bias: Array, sizes: Sequence[int]) -> Memory:
        self.weights[layer], self.shapes[layer] = (weight, bias), sizes  # the library does not copy the bias
        source = self.fitted(layer, source, description, dnnl.SRC_MD)
        result = self.queried(description, dnnl.DST_MD, sizes)
        arguments = [
            (dnnl.SRC, source),
            (dnnl.WEIGHTS, self.loaded(description, weight)),
            (dnnl.BIAS, self.plain(bias.shape, bias)),
            (dnnl.DST, result),
        ]
        self.steps.append((layer, self.call(description, arguments)))
        return result

    def tanh(self, layer: str, source: Memory) -> Memory:
        """Append a hyperbolic tangent in place; return the tensor."""
        description = dnnl.created(
            self.library.eltwise_forward_primitive_desc_create,
            self.engine,
            dnnl.FORWARD_INFERENCE,
            dnnl.ELTWISE_TANH,
            source.descriptor,
            source.descriptor,
            ctypes.c_float(0.0),
            ctypes.c_float(0.0),
            None,
        )
        self.shapes[layer] = source.sizes
        self.steps.append((layer, self.call(description, [(dnnl.SRC, source), (dnnl.DST, source)])))
        return source

    def average_pooling(self, layer: str, source: Memory) -> Memory:
        """Append an average pooling of 2x2 windows; return its result."""
        batch, channels, height, width = source.sizes
        sizes = (batch, channels, height // 2, width // 2)
        description = dnnl.created(
            self.library.pooling_forward_primitive_desc_create,
            self.engine,
            dnnl.FORWARD_INFERENCE,
            dnnl.POOLING_AVERAGE,
            source.descriptor,
            self.descriptor(sizes, dnnl.ANY),
            dnnl.dimensions(2, 2),
            dnnl.dimensions(2, 2),
            dnnl.dimensions(0, 0),
            dnnl.dimensions(0, 0),
            dnnl.dimensions(0, 0),
            None,
        )
        result, self.shapes[layer] = self.queried(description, dnnl.DST_MD, sizes), sizes
        self.steps.append((layer, self.call(description, [(dnnl.SRC, source), (dnnl.DST, result)])))
        return result

    def output(self, layer: str, source: Memory, values: Array) -> None:
        """Write a result into a numpy array: directly if the layouts agree; otherwise append a copy into the array."""
        target = self.plain(source.sizes, values)
        if self.library.memory_desc_equal(source.descriptor, target.descriptor):
            source.show(values)
        else:
            self.steps.append((layer, self.moved(source, target)))
