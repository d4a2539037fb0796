"""VGG-16 as an ONNX graph, the same on ImageNet and CIFAR-10 shapes; its dropouts have no effect in inference."""

from kernelscope.workloads.onnxruntime.alexnet import dense_top
from kernelscope.workloads.onnxruntime.graph import Graph


def vgg16(graph: Graph, x: str) -> str:
    """Append the network to its input `x`; return the name of the logits."""
    for stage, count in enumerate((2, 2, 3, 3, 3), 1):
        for number in range(1, count + 1):
            x = graph.convolution("conv%d_%d" % (stage, number), x, padding=1)
            x = graph.node("Relu", "relu%d_%d" % (stage, number), x)
        x = graph.pooling("MaxPool", "pool%d" % stage, x, 2, 2)
    return dense_top(graph, x)


vgg16_cifar10 = vgg16
