"""GoogLeNet on ImageNet and CIFAR-10 shapes as an ONNX graph; its dropout has no effect in inference."""

from kernelscope.workloads.onnxruntime.graph import Graph

BLOCKS = ("3a", "3b", None, "4a", "4b", "4c", "4d", "4e", None, "5a", "5b")  # None: a pooling


def _convolved(graph: Graph, block: str, layer: str, activation: str, x: str, padding: int = 0) -> str:
    return graph.node("Relu", block + activation, graph.convolution(block + layer, x, padding=padding))


def _inception(graph: Graph, block: str, x: str) -> str:
    """Append four branches and their concatenation."""
    first = _convolved(graph, block, "conv1", "relu1", x)
    second = _convolved(graph, block, "conv3", "relu3", _convolved(graph, block, "reduce3", "relu_reduce3", x), padding=1)
    third = _convolved(graph, block, "conv5", "relu5", _convolved(graph, block, "reduce5", "relu_reduce5", x), padding=2)
    pooled = graph.pooling("MaxPool", block + "pool", x, 3, 1, padding=1)
    fourth = _convolved(graph, block, "project", "relu_project", pooled)
    return graph.node("Concat", block + "concat", first, second, third, fourth, axis=1)


def _googlenet(graph: Graph, x: str) -> str:
    """Append nine inception blocks and a dense layer to a stem; return the name of the logits."""
    number = 2
    for block in BLOCKS:
        if block is None:
            number += 1
            x = graph.pooling("MaxPool", "pool%d" % number, x, 3, 2, padding=1)
        else:
            x = _inception(graph, "inception%s_" % block, x)
    x = graph.node("Dropout", "dropout", graph.global_average("pool5", x))
    return graph.dense("fc", x)


def googlenet(graph: Graph, x: str) -> str:
    """Append GoogLeNet for images [batch, 3, 224, 224]; return the name of the logits."""
    x = graph.node("Relu", "relu1", graph.convolution("conv1", x, padding=3, stride=2))
    x = graph.pooling("MaxPool", "pool1", x, 3, 2, padding=1)
    x = _convolved(graph, "", "conv2", "relu2", _convolved(graph, "", "reduce2", "relu_reduce2", x), padding=1)
    return _googlenet(graph, graph.pooling("MaxPool", "pool2", x, 3, 2, padding=1))


def googlenet_cifar10(graph: Graph, x: str) -> str:
    """Append GoogLeNet for images [batch, 3, 32, 32]; return the name of the logits."""
    return _googlenet(graph, _convolved(graph, "", "conv1", "relu1", x, padding=1))
