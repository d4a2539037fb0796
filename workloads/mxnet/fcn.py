"""FCN-5 and FCN-8 of Shi et al. (2016) in Gluon: dense layers with sigmoids between them."""

from mxnet.gluon import nn

_HIDDEN = {"fcn5": 2, "fcn8": 5}


def build(network, dropout):
    """Return the network as a block that maps vectors (N, 26752) to logits (N, 26752); it has no dropout."""
    hidden = _HIDDEN[network.name]
    net = nn.HybridSequential(prefix=network.name + "_")
    with net.name_scope():
        for number in range(1, hidden + 1):
            net.add(nn.Dense(1024, prefix="fc%d_" % number))
            net.add(nn.Activation("sigmoid", prefix="sigmoid%d_" % number))
        net.add(nn.Dense(network.classes, prefix="fc%d_" % (hidden + 1)))
    return net
