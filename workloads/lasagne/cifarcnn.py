"""The CIFAR-10 network of the comparison of eleven frameworks, as a Lasagne user writes it."""

from typing import Any

from lasagne.layers import Conv2DLayer, DenseLayer, DropoutLayer, FlattenLayer, InputLayer, MaxPool2DLayer, NonlinearityLayer
from lasagne.nonlinearities import linear, rectify


def build(images: Any, dropout: bool) -> Any:
    """Return the last layer, whose output is the logits [batch, 10]; images: the variable [batch, 3, 32, 32]."""
    rate = 1.0 if dropout else 0.0
    net = InputLayer((None, 3, 32, 32), images)
    net = Conv2DLayer(net, 50, 3, pad=1, nonlinearity=linear, name="conv1")
    net = NonlinearityLayer(net, rectify, name="relu1")
    net = Conv2DLayer(net, 50, 3, pad=1, nonlinearity=linear, name="conv2")
    net = NonlinearityLayer(net, rectify, name="relu2")
    net = MaxPool2DLayer(net, 2, name="pool1")
    net = DropoutLayer(net, 0.25 * rate, name="dropout1")
    net = Conv2DLayer(net, 100, 3, pad=1, nonlinearity=linear, name="conv3")
    net = NonlinearityLayer(net, rectify, name="relu3")
    net = Conv2DLayer(net, 100, 3, pad=1, nonlinearity=linear, name="conv4")
    net = NonlinearityLayer(net, rectify, name="relu4")
    net = MaxPool2DLayer(net, 2, name="pool2")
    net = DropoutLayer(net, 0.25 * rate, name="dropout2")
    net = FlattenLayer(net, name="flatten")
    net = DenseLayer(net, 512, nonlinearity=linear, name="fc1")
    net = NonlinearityLayer(net, rectify, name="relu5")
    net = DropoutLayer(net, 0.5 * rate, name="dropout3")
    return DenseLayer(net, 10, nonlinearity=linear, name="fc2")
