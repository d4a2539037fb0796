"""AlexNet on ImageNet and CIFAR-10 shapes as an ONNX graph; its dropouts have no effect in inference."""

from typing import Any

from kernelscope.workloads.onnxruntime.graph import Graph


def _alexnet(graph: Graph, x: str, pool: Any) -> str:
    """Append the rest of AlexNet to its first convolution; return the name of the logits. pool: size of the pooling windows."""
    x = graph.pooling("MaxPool", "pool1", graph.node("Relu", "relu1", x), pool, 2)
    for number, padding in ((2, 2), (3, 1), (4, 1), (5, 1)):
        x = graph.node("Relu", "relu%d" % number, graph.convolution("conv%d" % number, x, padding=padding))
        if number in (2, 5):
            x = graph.pooling("MaxPool", "pool%d" % number, x, pool, 2)
    return dense_top(graph, x)


def dense_top(graph: Graph, x: str) -> str:
    """Append the three dense layers that AlexNet and VGG-16 end with; return the name of the logits."""
    x = graph.node("Flatten", "flatten", x)
    for number in (1, 2):
        x = graph.dense("fc%d" % number, graph.node("Dropout", "dropout%d" % number, x))
        x = graph.node("Relu", "relu_fc%d" % number, x)
    return graph.dense("fc3", x)


def alexnet(graph: Graph, x: str) -> str:
    """Append AlexNet for images [batch, 3, 224, 224]; return the name of the logits."""
    return _alexnet(graph, graph.convolution("conv1", x, padding=2, stride=4), 3)


def alexnet_cifar10(graph: Graph, x: str) -> str:
    """Append AlexNet for images [batch, 3, 32, 32]; return the name of the logits."""
    return _alexnet(graph, graph.convolution("conv1", x, padding=1), 2)
