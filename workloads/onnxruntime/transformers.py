"""The blocks of GPT-2 and BERT, and ViT-S/16, as ONNX graphs, with ONNX's Attention (since operator set 23)."""

from typing import Any

import numpy

from kernelscope.workloads.onnxruntime.graph import Graph


def _attention(graph: Graph, block: str, x: str, heads: int, causal: bool) -> str:
    """Append one product for queries, keys and values, attention, and the output projection."""
    x = graph.dense_of_rows(block + "qkv", x)
    name = block + "attention"
    x = graph.node("Attention", name, *graph.thirds(name, x), q_num_heads=heads, kv_num_heads=heads, is_causal=int(causal))
    return graph.dense_of_rows(block + "proj", x)


def _feed_forward(graph: Graph, block: str, x: str, approximate: str) -> str:
    """Append two products with a GELU between them; approximate: "none" or "tanh"."""
    x = graph.node("Gelu", block + "gelu", graph.dense_of_rows(block + "fc1", x), approximate=approximate)
    return graph.dense_of_rows(block + "fc2", x)


def _before(graph: Graph, block: str, x: str, heads: int, causal: bool, approximate: str, epsilon: float) -> str:
    """Append a block that normalises before its two parts, as in GPT-2 and ViT."""
    y = _attention(graph, block, graph.layer_norm(block + "ln1", x, epsilon), heads, causal)
    x = graph.node("Add", block + "add1", y, x)
    y = _feed_forward(graph, block, graph.layer_norm(block + "ln2", x, epsilon), approximate)
    return graph.node("Add", block + "add2", y, x)


def _after(graph: Graph, block: str, x: str, heads: int) -> str:
    """Append a block that normalises after its two parts, as in BERT."""
    x = graph.node("Add", block + "add1", _attention(graph, block, x, heads, False), x)
    x = graph.layer_norm(block + "ln1", x, 1e-12)
    x = graph.node("Add", block + "add2", _feed_forward(graph, block, x, "none"), x)
    return graph.layer_norm(block + "ln2", x, 1e-12)


def _token(graph: Graph, layer: str, x: str, number: Any) -> str:
    return graph.node("Gather", layer, x, graph.constant(layer + "_number", numpy.array(number)), axis=1)


def gpt2(graph: Graph, x: str) -> str:
    """Append GPT-2 small's blocks to vectors [batch, length, 768]; return the name of the logits."""
    for number in range(1, 13):
        x = _before(graph, "block%d_" % number, x, 12, True, "tanh", 1e-5)
    return graph.dense("head", _token(graph, "last", graph.layer_norm("ln", x, 1e-5), -1))


def bert_base(graph: Graph, x: str) -> str:
    """Append BERT-base's blocks to vectors [batch, length, 768]; return the name of the logits."""
    for number in range(1, 13):
        x = _after(graph, "block%d_" % number, x, 12)
    return graph.dense("head", _token(graph, "first", x, 0))


def vit_s16(graph: Graph, x: str) -> str:
    """Append ViT-S/16 to images [batch, 3, 224, 224]; return the name of the logits."""
    x = graph.convolution("patch", x, stride=16)
    x = graph.node("Reshape", "tokens_row", x, graph.constant("tokens_shape", numpy.array([0, 384, -1])))
    x = graph.node("Transpose", "tokens_patches", x, perm=[0, 2, 1])
    batch = graph.node("Shape", "tokens_batch", x, start=0, end=1)
    shape = graph.node("Concat", "tokens_first_shape", batch, graph.constant("tokens_one", numpy.array([1, 384])), axis=0)
    first = graph.node("Expand", "tokens_first", graph.weight("tokens", "class_token"), shape)
    x = graph.node("Concat", "tokens_all", first, x, axis=1)
    x = graph.node("Add", "tokens", x, graph.weight("tokens", "positions"))
    for number in range(1, 13):
        x = _before(graph, "block%d_" % number, x, 6, False, "none", 1e-6)
    return graph.dense("head", _token(graph, "first", graph.layer_norm("ln", x, 1e-6), 0))
