"""The recurrent networks as ONNX graphs. ONNX's gates are input, output, forget, cell; a GRU's are update, reset, new."""

from kernelscope.workloads.onnxruntime.graph import Graph

LSTM, GRU = (0, 3, 1, 2), (1, 0, 2)  # for each of ONNX's gates, its place in the canonical order


def lstm(graph: Graph, x: str) -> str:
    """Append one LSTM over rows [batch, 28, 28] and a dense layer; return the name of the logits."""
    return graph.dense("fc1", graph.recurrent("LSTM", "lstm1", x, LSTM))


def lstm32(graph: Graph, x: str) -> str:
    """Append two LSTMs over rows [batch, steps, 10000] and a dense layer; return the name of the logits."""
    x = graph.recurrent("LSTM", "lstm1", x, LSTM, sequence=True)
    return graph.dense("fc1", graph.recurrent("LSTM", "lstm2", x, LSTM))


lstm64 = lstm32


def gru(graph: Graph, x: str) -> str:
    """Append an embedding, a GRU and a dense layer to words [batch, 150]; return the name of the logits."""
    x = graph.node("Gather", "embedding", graph.weight("embedding", "weight"), x)
    return graph.dense("fc1", graph.recurrent("GRU", "gru1", x, GRU, linear_before_reset=1))
