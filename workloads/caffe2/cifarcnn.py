"""The CIFAR-10 network of the comparison of eleven frameworks, as a Caffe2 user writes it; blobs have the names of layers."""

from typing import Any

from caffe2.python import brew


def build(model: Any, x: str, dropout: bool) -> str:
    """Append the layers to a model; return the blob of logits. dropout: whether dropouts drop anything in training."""
    convolution_rate, dense_rate = (0.25, 0.5) if dropout else (0.0, 0.0)
    x = brew.relu(model, brew.conv(model, x, "conv1", 3, 50, kernel=3, pad=1), "relu1")
    x = brew.relu(model, brew.conv(model, x, "conv2", 50, 50, kernel=3, pad=1), "relu2")
    x = brew.max_pool(model, x, "pool1", kernel=2, stride=2)
    x = brew.dropout(model, x, "dropout1", ratio=convolution_rate)
    x = brew.relu(model, brew.conv(model, x, "conv3", 50, 100, kernel=3, pad=1), "relu3")
    x = brew.relu(model, brew.conv(model, x, "conv4", 100, 100, kernel=3, pad=1), "relu4")
    x = brew.max_pool(model, x, "pool2", kernel=2, stride=2)
    x = brew.dropout(model, x, "dropout2", ratio=convolution_rate)
    x = model.Flatten(x, "flatten")
    x = brew.relu(model, brew.fc(model, x, "fc1", 100 * 8 * 8, 512), "relu5")
    x = brew.dropout(model, x, "dropout3", ratio=dense_rate)
    return brew.fc(model, x, "fc2", 512, 10)
