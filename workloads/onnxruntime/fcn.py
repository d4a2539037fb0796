"""FCN-5 and FCN-8 of Shi et al. (2016) as ONNX graphs."""

from kernelscope.workloads.onnxruntime.graph import Graph


def _fcn(graph: Graph, x: str, hidden: int) -> str:
    for number in range(1, hidden + 1):
        x = graph.node("Sigmoid", "sigmoid%d" % number, graph.dense("fc%d" % number, x))
    return graph.dense("fc%d" % (hidden + 1), x)


def fcn5(graph: Graph, x: str) -> str:
    """Append FCN-5 to vectors [batch, 26752]; return the name of the logits."""
    return _fcn(graph, x, 2)


def fcn8(graph: Graph, x: str) -> str:
    """Append FCN-8 to vectors [batch, 26752]; return the name of the logits."""
    return _fcn(graph, x, 5)
