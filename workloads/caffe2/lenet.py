"""LeNet-5 for 28x28 images, as a Caffe2 user writes it; blobs have the names of layers."""

from typing import Any

from caffe2.python import brew


def build(model: Any, x: str, dropout: bool) -> str:
    """Append the layers to a model; return the blob of logits. There is no dropout to switch off."""
    x = brew.tanh(model, brew.conv(model, x, "conv1", 1, 6, kernel=5, pad=2), "tanh1")
    x = brew.average_pool(model, x, "pool1", kernel=2, stride=2)
    x = brew.tanh(model, brew.conv(model, x, "conv2", 6, 16, kernel=5), "tanh2")
    x = brew.average_pool(model, x, "pool2", kernel=2, stride=2)
    x = model.Flatten(x, "flatten")
    x = brew.tanh(model, brew.fc(model, x, "fc1", 400, 120), "tanh3")
    x = brew.tanh(model, brew.fc(model, x, "fc2", 120, 84), "tanh4")
    return brew.fc(model, x, "fc3", 84, 10)
