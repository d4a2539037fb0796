"""Builds a network's description layer by layer; shapes, operations and bytes follow from the layers' settings.

Runs under Python 3.6.
"""

from typing import Any, Iterable, List, Optional, Sequence, Tuple

from kernelscope.workloads.networks.description import FLOAT_BYTES, INPUT, Layer, Network, Parameter, Settings, elements


class Builder(object):
    """Appends layers, each fed by the one before, unless `start_at`, `inputs` or `sources` name others."""

    def __init__(self, input_shape: Sequence[int]) -> None:
        self.input_shape = tuple(input_shape)
        self.layers: List[Layer] = []
        self._shapes = {INPUT: self.input_shape}
        self.at = INPUT  # the layer that feeds the next one

    @property
    def shape(self) -> Tuple[int, ...]:
        """The shape of the next layer's input."""
        return self._shapes[self.at]

    def start_at(self, name: str) -> "Builder":
        """Start a branch: the layer of this name feeds the next one."""
        self.at = name
        return self

    def add_layer(
        self,
        name: str,
        type: str,
        output_shape: Sequence[int],
        parameters: Iterable[Tuple[str, Sequence[int]]] = (),
        flops: float = 0,
        inputs: Optional[Sequence[str]] = None,
        **settings: Any,
    ) -> "Builder":
        """Append a layer of any type. parameters: pairs of name and shape; inputs: layer names, by default the layer before."""
        inputs = (self.at,) if inputs is None else tuple(inputs)
        output_shape = tuple(output_shape)
        trained = tuple(Parameter(n, tuple(s)) for n, s in parameters)
        read = sum(elements(self._shapes[source]) for source in inputs)
        moved = FLOAT_BYTES * (read + elements(output_shape))
        weights = FLOAT_BYTES * sum(elements(p.shape) for p in trained)
        first = self._shapes[inputs[0]]
        layer = Layer(name, type, first, output_shape, trained, int(flops), moved, weights, settings, inputs)
        self.layers.append(layer)
        self._shapes[name] = output_shape
        self.at = name
        return self

    def convolution(self, name: str, channels: int, kernel: int, padding: int, stride: int = 1, bias: bool = True) -> "Builder":
        """Append a convolution with the same padding on all four sides."""
        in_channels, height, width = self.shape
        out_height, out_width = ((size + 2 * padding - kernel) // stride + 1 for size in (height, width))
        macs = channels * out_height * out_width * in_channels * kernel * kernel
        parameters: List[Tuple[str, Sequence[int]]] = [("weight", (channels, in_channels, kernel, kernel))]
        flops = 2 * macs
        if bias:
            parameters.append(("bias", (channels,)))
            flops += channels * out_height * out_width
        shape = (channels, out_height, out_width)
        return self.add_layer(
            name, "convolution", shape, parameters, flops, kernel=kernel, padding=padding, stride=stride, use_bias=bias
        )

    def dense(self, name: str, units: int) -> "Builder":
        """Append a matrix product with bias over the last dimension."""
        rows, inputs = elements(self.shape[:-1]), self.shape[-1]
        parameters = (("weight", (units, inputs)), ("bias", (units,)))
        flops = rows * (2 * units * inputs + units)
        return self.add_layer(name, "dense", self.shape[:-1] + (units,), parameters, flops)

    def lstm(self, name: str, units: int, sequence: bool = False) -> "Builder":
        """Append an LSTM over the first dimension; sequence: output every time step's hidden state, not only the last one."""
        steps, inputs = self.shape
        gates = 4 * units
        parameters = (
            ("input_weight", (gates, inputs)),
            ("hidden_weight", (gates, units)),
            ("bias", (gates,)),
        )
        # per time step: both products, the bias, three sigmoids and two tanh, and the cell's update (4 per unit)
        flops = steps * (2 * gates * (inputs + units) + gates + 5 * units + 4 * units)
        shape = (steps, units) if sequence else (units,)
        return self.add_layer(name, "lstm", shape, parameters, flops, units=units, steps=steps, sequence=sequence)

    def gru(self, name: str, units: int) -> "Builder":
        """Append a GRU in cuDNN's form (reset applied to the product, two biases); its output is the last hidden state.

        r = sigmoid(Wr x + br + Ur h + cr), z = sigmoid(Wz x + bz + Uz h + cz), n = tanh(Wn x + bn + r (Un h + cn)),
        h' = (1 - z) n + z h. Source: the cuDNN developer guide, CUDNN_GRU.
        """
        steps, inputs = self.shape
        gates = 3 * units
        parameters = (
            ("input_weight", (gates, inputs)),
            ("hidden_weight", (gates, units)),
            ("input_bias", (gates,)),
            ("hidden_bias", (gates,)),
        )
        # per time step: both products, both biases and their sum, two sigmoids, a tanh, and the state's update (4 per unit)
        flops = steps * (2 * gates * (inputs + units) + 3 * gates + 3 * units + 5 * units)
        return self.add_layer(name, "gru", (units,), parameters, flops, units=units, steps=steps)

    def embedding(self, name: str, words: int, units: int) -> "Builder":
        """Append an embedding: a table with a vector for each word."""
        return self.add_layer(name, "embedding", self.shape + (units,), (("weight", (words, units)),), 0, words=words)

    def tokens(self, name: str) -> "Builder":
        """Append a layer that turns an image's pixels into tokens, prepends a trained token, and adds trained positions."""
        channels, height, width = self.shape
        count = height * width + 1
        parameters = (("class_token", (channels,)), ("positions", (count, channels)))
        return self.add_layer(name, "tokens", (count, channels), parameters, count * channels)

    def attention(self, name: str, heads: int, causal: bool) -> "Builder":
        """Append scaled dot-product attention; queries, keys and values are concatenated in the last dimension."""
        length, width = self.shape[0], self.shape[1] // 3
        # scores and weighted sums, two per multiply-accumulate, and the softmax: maximum, subtraction, exponential, sum, division
        flops = 2 * 2 * length * length * width + (5 + 1) * heads * length * length
        return self.add_layer(name, "attention", (length, width), (), flops, heads=heads, causal=causal)

    def batch_norm(self, name: str) -> "Builder":
        """Append a batch normalisation: epsilon 1e-5; running statistics keep 0.9, and start at mean 0 and variance 1."""
        channels = self.shape[0]
        parameters = (("weight", (channels,)), ("bias", (channels,)))
        return self.add_layer(name, "batch_norm", self.shape, parameters, 4 * elements(self.shape), epsilon=1e-5, keep=0.9)

    def layer_norm(self, name: str, epsilon: float = 1e-5) -> "Builder":
        """Append a normalisation over the last dimension."""
        parameters = (("weight", self.shape[-1:]), ("bias", self.shape[-1:]))
        # mean, variance, subtraction, division, scale, shift
        return self.add_layer(name, "layer_norm", self.shape, parameters, 7 * elements(self.shape), epsilon=epsilon)

    def pooling(self, name: str, kind: str, size: int, stride: Optional[int] = None, padding: int = 0) -> "Builder":
        """Append a pooling of square windows; kind: max or average. Pixels outside the image do not take part."""
        stride = size if stride is None else stride
        channels, height, width = self.shape
        shape = (channels,) + tuple((length + 2 * padding - size) // stride + 1 for length in (height, width))
        flops = elements(shape) * size * size
        return self.add_layer(name, "pooling_" + kind, shape, (), flops, size=size, stride=stride, padding=padding)

    def pooling_global(self, name: str) -> "Builder":
        """Append the mean of each channel."""
        return self.add_layer(name, "pooling_global", self.shape[:1], (), elements(self.shape))

    def activation(self, name: str, kind: str, **settings: Any) -> "Builder":
        """Append tanh, relu, sigmoid or gelu; approximate=True selects GPT-2's tanh approximation of gelu."""
        return self.add_layer(name, kind, self.shape, (), elements(self.shape), **settings)

    def dropout(self, name: str, rate: float) -> "Builder":
        """Append a dropout with this rate."""
        return self.add_layer(name, "dropout", self.shape, (), elements(self.shape), rate=rate)

    def plus(self, name: str, other: str) -> "Builder":
        """Append the sum of the current layer's output and that of the layer `other`."""
        return self.add_layer(name, "add", self.shape, (), elements(self.shape), inputs=(self.at, other))

    def concat(self, name: str, sources: Sequence[str]) -> "Builder":
        """Append the concatenation of several layers' channels."""
        shapes = [self._shapes[source] for source in sources]
        shape = (sum(s[0] for s in shapes),) + shapes[0][1:]
        return self.add_layer(name, "concat", shape, (), 0, inputs=sources)

    def flatten(self, name: str) -> "Builder":
        """Append a reshaping into a vector, channels first."""
        return self.add_layer(name, "flatten", (elements(self.shape),))

    def token(self, name: str, which: str) -> "Builder":
        """Append the selection of one token; which: "first" or "last"."""
        return self.add_layer(name, which, self.shape[1:])

    def network(self, name: str, title: str, dataset: str, optimizer: Settings, gain: float = 1.0, words: int = 0) -> Network:
        """Append the loss and return the network."""
        classes = self.shape[0]
        # softmax cross-entropy: maximum, subtraction, exponential, sum, logarithm, pick
        self.add_layer("loss", "loss", (), (), 5 * classes)
        return Network(name, title, self.input_shape, classes, dataset, tuple(self.layers), dict(optimizer), gain, words)
