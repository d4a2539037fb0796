"""FCN-5 and FCN-8 of Shi et al. (2016) in Gluon: dense layers with sigmoids between them."""

from typing import Any

from mxnet.gluon import nn

from kernelscope.workloads.networks import Network


def fcn5(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps vectors (N, 26752) to logits (N, 26752); it has no dropout."""
    return _fcn(network, 2)


def fcn8(network: Network, dropout: bool) -> Any:
    """Return the network as a block that maps vectors (N, 26752) to logits (N, 26752); it has no dropout."""
    return _fcn(network, 5)


def _fcn(network: Network, hidden: int) -> Any:
    net = nn.HybridSequential(prefix=network.name + "_")
    with net.name_scope():
        for number in range(1, hidden + 1):
            net.add(nn.Dense(1024, prefix="fc%d_" % number))
            net.add(nn.Activation("sigmoid", prefix="sigmoid%d_" % number))
        net.add(nn.Dense(network.classes, prefix="fc%d_" % (hidden + 1)))
    return net
