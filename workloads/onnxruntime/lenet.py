"""LeNet-5 for images [batch, 1, 28, 28] as an ONNX graph."""

from kernelscope.workloads.onnxruntime.graph import Graph


def lenet(graph: Graph, x: str) -> str:
    """Append the network to its input `x`; return the name of the logits."""
    x = graph.node("Tanh", "tanh1", graph.convolution("conv1", x, padding=2))
    x = graph.pooling("AveragePool", "pool1", x, 2, 2)
    x = graph.node("Tanh", "tanh2", graph.convolution("conv2", x))
    x = graph.pooling("AveragePool", "pool2", x, 2, 2)
    x = graph.node("Flatten", "flatten", x)
    x = graph.node("Tanh", "tanh3", graph.dense("fc1", x))
    x = graph.node("Tanh", "tanh4", graph.dense("fc2", x))
    return graph.dense("fc3", x)
