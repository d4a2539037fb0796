"""Two hidden layers over vectors [batch, 784] as an ONNX graph; its dropouts have no effect in inference."""

from kernelscope.workloads.onnxruntime.graph import Graph


def mlp(graph: Graph, x: str) -> str:
    """Append the network to its input `x`; return the name of the logits."""
    for number in ("1", "2"):
        x = graph.node("Relu", "relu" + number, graph.dense("fc" + number, x))
        x = graph.node("Dropout", "dropout" + number, x)
    return graph.dense("fc3", x)
