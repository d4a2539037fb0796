"""The multi-layer perceptron for vectors of 784 numbers, as a Lasagne user writes it."""

from typing import Any

from lasagne.layers import DenseLayer, DropoutLayer, InputLayer, NonlinearityLayer
from lasagne.nonlinearities import linear, rectify


def build(vectors: Any, dropout: bool) -> Any:
    """Return the last layer, whose output is the logits [batch, 10]; vectors: the variable [batch, 784]."""
    rate = 0.2 if dropout else 0.0
    net = InputLayer((None, 784), vectors)
    net = DenseLayer(net, 512, nonlinearity=linear, name="fc1")
    net = NonlinearityLayer(net, rectify, name="relu1")
    net = DropoutLayer(net, rate, name="dropout1")
    net = DenseLayer(net, 512, nonlinearity=linear, name="fc2")
    net = NonlinearityLayer(net, rectify, name="relu2")
    net = DropoutLayer(net, rate, name="dropout2")
    return DenseLayer(net, 10, nonlinearity=linear, name="fc3")
