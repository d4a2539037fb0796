"""A residual network in Gluon, which knows nothing of us. Arguments: eager, graph or static; train or infer; steps."""

import hashlib
import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn

BATCH = 8


class Residual(gluon.HybridBlock):
    """Two convolutions beside a third one: the engine runs what it can, in an order of its own."""

    def __init__(self, channels, inputs, **keywords):
        super().__init__(**keywords)
        with self.name_scope():
            self.conv1 = nn.Conv2D(channels, 3, padding=1, in_channels=inputs)
            self.norm = nn.BatchNorm(in_channels=channels)
            self.conv2 = nn.Conv2D(channels, 3, padding=1, in_channels=channels)
            self.short = nn.Conv2D(channels, 1, in_channels=inputs)

    def hybrid_forward(self, F, x):
        return F.relu(self.conv2(F.relu(self.norm(self.conv1(x)))) + self.short(x))


class Net(gluon.HybridBlock):
    """A stem, two residual blocks and a head, which is called twice."""

    def __init__(self, **keywords):
        super().__init__(**keywords)
        with self.name_scope():
            self.stem = nn.Conv2D(6, 5, padding=2, in_channels=3)
            self.features = nn.HybridSequential()
            with self.features.name_scope():
                self.features.add(Residual(8, 6), nn.MaxPool2D(), Residual(12, 8))
            self.head = nn.Dense(10, in_units=12 * 8 * 8)

    def hybrid_forward(self, F, x):
        features = self.features(self.stem(x))
        return self.head(features) + self.head(F.tanh(features))


def main():
    """Train or infer, and print what came out."""
    how, mode, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    mx.random.seed(1)
    np.random.seed(1)  # noqa: NPY002  Xavier draws from it
    random = np.random.default_rng(1)
    net = Net()
    net.initialize(mx.init.Xavier())
    if how != "eager":
        net.hybridize(static_alloc=how == "static", static_shape=how == "static")
    images = random.random((steps * BATCH, 3, 16, 16), dtype="float32")
    labels = random.integers(0, 10, steps * BATCH).astype("float32")
    batches = gluon.data.DataLoader(gluon.data.ArrayDataset(images, labels), BATCH)
    digest = hashlib.sha256()
    if mode == "infer":
        for data, _ in batches:
            digest.update(net(data).asnumpy().tobytes())
    else:
        loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
        for data, label in batches:
            with autograd.record():
                loss = loss_of(net(data), label)
                loss = loss.mean() if how == "static" else loss
            loss.backward()
            trainer.step(1 if how == "static" else BATCH)
            digest.update(loss.asnumpy().tobytes())
            print("loss", float(loss.mean().asscalar()))
        for parameter in net.collect_params().values():
            digest.update(parameter.data().asnumpy().tobytes())
    print(digest.hexdigest())
    sys.exit(3)


if __name__ == "__main__":
    main()
