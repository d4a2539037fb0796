"""ResNet-50 on ImageNet and CIFAR-10 shapes as an ONNX graph."""

from typing import Any

from kernelscope.workloads.onnxruntime.graph import Graph


def _convolved(graph: Graph, block: str, number: Any, x: str, padding: int = 0, stride: int = 1) -> str:
    """Append a convolution and its normalisation."""
    x = graph.convolution("%sconv%d" % (block, number), x, padding=padding, stride=stride)
    return graph.batch_norm("%sbn%d" % (block, number), x)


def _bottleneck(graph: Graph, block: str, x: str, stride: int, project: bool) -> str:
    """Append 1x1, 3x3 and 1x1 convolutions and a shortcut around them; project: whether the shortcut is a convolution."""
    y = graph.node("Relu", block + "relu1", _convolved(graph, block, 1, x, stride=stride))
    y = graph.node("Relu", block + "relu2", _convolved(graph, block, 2, y, padding=1))
    y = _convolved(graph, block, 3, y)
    if project:
        x = graph.batch_norm(block + "bn_shortcut", graph.convolution(block + "shortcut", x, stride=stride))
    return graph.node("Relu", block + "relu3", graph.node("Add", block + "add", y, x))


def _resnet50(graph: Graph, x: str) -> str:
    """Append four stages of blocks and a dense layer to a stem; return the name of the logits."""
    for stage, count in enumerate((3, 4, 6, 3), 1):
        for number in range(1, count + 1):
            first = number == 1
            x = _bottleneck(graph, "stage%d_block%d_" % (stage, number), x, 2 if first and stage > 1 else 1, first)
    return graph.dense("fc", graph.global_average("pool", x))


def resnet50(graph: Graph, x: str) -> str:
    """Append ResNet-50 for images [batch, 3, 224, 224]; return the name of the logits."""
    x = graph.node("Relu", "relu1", _convolved(graph, "", 1, x, padding=3, stride=2))
    return _resnet50(graph, graph.pooling("MaxPool", "pool1", x, 3, 2, padding=1))


def resnet50_cifar10(graph: Graph, x: str) -> str:
    """Append ResNet-50 for images [batch, 3, 32, 32]; return the name of the logits."""
    return _resnet50(graph, graph.node("Relu", "relu1", _convolved(graph, "", 1, x, padding=1)))
