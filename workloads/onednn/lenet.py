"""LeNet-5 for 1x28x28 images, as a user of oneDNN's C interface writes it."""

from typing import Any, Tuple

from kernelscope.workloads.networks import Array, Weights


def build(library: Any, images: Array, logits: Array, weights: Weights) -> Any:
    """Append the network between two arrays to a builder; return its input tensor. weights: {(layer, parameter): array}."""

    def of(layer: str) -> Tuple[Array, Array]:
        return weights[(layer, "weight")], weights[(layer, "bias")]

    source = library.plain(images.shape, images)
    x = library.convolution("conv1", source, *of("conv1"), padding=2)
    x = library.average_pooling("pool1", library.tanh("tanh1", x))
    x = library.convolution("conv2", x, *of("conv2"), padding=0)
    x = library.average_pooling("pool2", library.tanh("tanh2", x))
    x = library.tanh("tanh3", library.inner_product("fc1", x, *of("fc1")))
    x = library.tanh("tanh4", library.inner_product("fc2", x, *of("fc2")))
    x = library.inner_product("fc3", x, *of("fc3"))
    library.output("fc3", x, logits)
    return source
