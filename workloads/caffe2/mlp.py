"""Two hidden layers with dropout over 784 inputs, as a Caffe2 user writes it; blobs have the names of layers."""

from typing import Any

from caffe2.python import brew


def build(model: Any, x: str, dropout: bool) -> str:
    """Append the layers to a model; return the blob of logits. dropout: whether dropouts drop anything in training."""
    rate = 0.2 if dropout else 0.0
    x = brew.relu(model, brew.fc(model, x, "fc1", 784, 512), "relu1")
    x = brew.dropout(model, x, "dropout1", ratio=rate)
    x = brew.relu(model, brew.fc(model, x, "fc2", 512, 512), "relu2")
    x = brew.dropout(model, x, "dropout2", ratio=rate)
    return brew.fc(model, x, "fc3", 512, 10)
