"""The two CIFAR-10 networks with four convolutions as ONNX graphs; their dropouts have no effect in inference."""

from kernelscope.workloads.onnxruntime.graph import Graph


def _pairs(graph: Graph, x: str, padding: int) -> str:
    """Append two pairs of convolutions and two dense layers; return the name of the logits.

    padding: that of each pair's second convolution.
    """
    for pair in (1, 2):
        for number, pixels in ((2 * pair - 1, 1), (2 * pair, padding)):
            x = graph.node("Relu", "relu%d" % number, graph.convolution("conv%d" % number, x, padding=pixels))
        x = graph.pooling("MaxPool", "pool%d" % pair, x, 2, 2)
        x = graph.node("Dropout", "dropout%d" % pair, x)
    x = graph.node("Relu", "relu5", graph.dense("fc1", graph.node("Flatten", "flatten", x)))
    return graph.dense("fc2", graph.node("Dropout", "dropout3", x))


def cnn(graph: Graph, x: str) -> str:
    """Append the Keras CIFAR-10 example network for images [batch, 3, 32, 32]; return the name of the logits."""
    return _pairs(graph, x, padding=0)


def cifarcnn(graph: Graph, x: str) -> str:
    """Append the network of the comparison of eleven frameworks for images [batch, 3, 32, 32]; return the name of the logits."""
    return _pairs(graph, x, padding=1)
