"""Builds an ONNX graph as users do with onnx.helper. Nodes and their results have the names of layers.

The canonical layouts of convolutions and dense layers are also ONNX's; the gates of recurrent layers are reordered.
"""

from typing import Any, List

import numpy
from onnx import TensorProto, checker, helper, numpy_helper

from kernelscope.workloads.networks import Array, Network, Weights

OPSET = 23
INPUT = "input"
BATCH = "batch"  # the symbolic first dimension of input and output, as exporters write it


class Graph(object):
    """Collects nodes. A method that appends some returns the name of their result, which is the layer's name."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights  # {(layer, parameter): float32 array in canonical layout}
        self.nodes: List[Any] = []
        self.initializers: List[Any] = []

    def constant(self, name: str, values: Array) -> str:
        """Add an array to the graph; return its name."""
        self.initializers.append(numpy_helper.from_array(numpy.array(values, order="C"), name))
        return name

    def weight(self, layer: str, name: str) -> str:
        """Add a parameter of a layer to the graph as it is; return its name."""
        return self.constant(layer + "." + name, self.weights[(layer, name)])

    def node(self, operator: str, layer: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one result."""
        self.nodes.append(helper.make_node(operator, inputs, [layer], name=layer, **attributes))
        return layer

    def convolution(self, layer: str, source: str, padding: int = 0, stride: int = 1) -> str:
        """Append a convolution, with a bias if the layer has one."""
        parameters = [self.weight(layer, name) for name in ("weight", "bias") if (layer, name) in self.weights]
        return self.node("Conv", layer, source, *parameters, pads=[padding] * 4, strides=[stride] * 2)

    def dense(self, layer: str, source: str) -> str:
        """Append a matrix product with bias for inputs [batch, size]."""
        return self.node("Gemm", layer, source, self.weight(layer, "weight"), self.weight(layer, "bias"), transB=1)

    def dense_of_rows(self, layer: str, source: str) -> str:
        """Append a matrix product with bias over the last dimension of inputs [batch, length, size]."""
        weight = self.constant(layer + ".weight", self.weights[(layer, "weight")].T)
        product = self.node("MatMul", layer + "_product", source, weight)
        return self.node("Add", layer, product, self.weight(layer, "bias"))

    def pooling(self, operator: str, layer: str, source: str, size: int, stride: int, padding: int = 0) -> str:
        """Append a pooling of square windows; operator: MaxPool or AveragePool."""
        return self.node(operator, layer, source, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[padding] * 4)

    def global_average(self, layer: str, source: str) -> str:
        """Append the mean of each channel; the result is [batch, channels]."""
        return self.node("Flatten", layer, self.node("GlobalAveragePool", layer + "_mean", source))

    def batch_norm(self, layer: str, source: str) -> str:
        """Append a batch normalisation whose running statistics are those of an untrained network: mean 0, variance 1."""
        scale, shift = self.weight(layer, "weight"), self.weight(layer, "bias")
        mean = self.constant(layer + ".mean", numpy.zeros_like(self.weights[(layer, "weight")]))
        variance = self.constant(layer + ".variance", numpy.ones_like(self.weights[(layer, "weight")]))
        return self.node("BatchNormalization", layer, source, scale, shift, mean, variance, epsilon=1e-5)

    def layer_norm(self, layer: str, source: str, epsilon: float) -> str:
        """Append a normalisation over the last dimension."""
        scale, shift = self.weight(layer, "weight"), self.weight(layer, "bias")
        return self.node("LayerNormalization", layer, source, scale, shift, epsilon=epsilon)

    def thirds(self, layer: str, source: str) -> List[str]:
        """Append a split of the last dimension into three parts; return their names."""
        parts = ["%s_part%d" % (layer, number) for number in (1, 2, 3)]
        self.nodes.append(helper.make_node("Split", [source], parts, name=layer + "_split", axis=-1, num_outputs=3))
        return parts

    def recurrent(self, operator, layer, source, order, sequence=False, **attributes):
        # type: (str, str, str, Any, bool, **Any) -> str
        """Append an LSTM or GRU over [batch, time, size]; sequence: output all hidden states, not only the last one.

        order: for each of ONNX's gates, its place in the canonical order.
        """

        def gates(values: Array) -> Array:
            parts = numpy.split(values, len(order))
            return numpy.concatenate([parts[place] for place in order])

        of = {name: gates(values) for (owner, name), values in self.weights.items() if owner == layer}
        first = of.get("bias", of.get("input_bias"))
        biases = numpy.concatenate([first, of.get("hidden_bias", numpy.zeros_like(first))])
        arrays = (("W", of["input_weight"]), ("R", of["hidden_weight"]), ("B", biases))
        parameters = [self.constant("%s.%s" % (layer, name), values[None]) for name, values in arrays]
        rows = self.node("Transpose", layer + "_rows", source, perm=[1, 0, 2])
        every, last = layer + "_every", layer + "_last"
        size = of["hidden_weight"].shape[1]
        self.nodes.append(
            helper.make_node(operator, [rows] + parameters, [every, last], name=layer + "_steps", hidden_size=size, **attributes)
        )
        direction = self.constant(layer + "_direction", numpy.array([1 if sequence else 0]))
        if not sequence:
            return self.node("Squeeze", layer, last, direction)
        return self.node("Transpose", layer, self.node("Squeeze", layer + "_one", every, direction), perm=[1, 0, 2])

    def model(self, network: Network, output: str) -> Any:
        """Return the finished model; onnx.checker raises ValidationError if it is invalid. output: the result's name."""
        kind = TensorProto.INT64 if network.words else TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info(INPUT, kind, [BATCH] + list(network.input_shape))]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, [BATCH, network.classes])]
        graph = helper.make_graph(self.nodes, network.name, inputs, outputs, self.initializers)
        made = helper.make_model_gen_version(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        checker.check_model(made)
        return made
