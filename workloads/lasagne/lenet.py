"""LeNet-5 for 1x28x28 images, as a Lasagne user writes it."""

from typing import Any

from lasagne.layers import Conv2DLayer, DenseLayer, FlattenLayer, InputLayer, NonlinearityLayer, Pool2DLayer
from lasagne.nonlinearities import linear, tanh


def build(images: Any, dropout: bool) -> Any:
    """Return the last layer, whose output is the logits [batch, 10]; images: the variable [batch, 1, 28, 28]."""
    net = InputLayer((None, 1, 28, 28), images)
    net = Conv2DLayer(net, 6, 5, pad=2, nonlinearity=linear, name="conv1")
    net = NonlinearityLayer(net, tanh, name="tanh1")
    net = Pool2DLayer(net, 2, mode="average_exc_pad", name="pool1")
    net = Conv2DLayer(net, 16, 5, nonlinearity=linear, name="conv2")
    net = NonlinearityLayer(net, tanh, name="tanh2")
    net = Pool2DLayer(net, 2, mode="average_exc_pad", name="pool2")
    net = FlattenLayer(net, name="flatten")
    net = DenseLayer(net, 120, nonlinearity=linear, name="fc1")
    net = NonlinearityLayer(net, tanh, name="tanh3")
    net = DenseLayer(net, 84, nonlinearity=linear, name="fc2")
    net = NonlinearityLayer(net, tanh, name="tanh4")
    return DenseLayer(net, 10, nonlinearity=linear, name="fc3")
