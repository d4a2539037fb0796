"""A script of MXNet whose data set computes with operators of MXNet's."""

import mxnet as mx
import numpy

random = numpy.random.RandomState(0)
VALUES, LABELS = random.normal(size=(128, 64)).astype("float32"), random.randint(0, 10, 128).astype("float32")


class Samples(mx.gluon.data.Dataset):
    """Samples that are clipped when they are asked for."""

    def __len__(self):
        return len(VALUES)

    def __getitem__(self, index):
        return mx.nd.clip(mx.nd.array(VALUES[index]), -1, 1), LABELS[index]


net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(32, activation="relu"), mx.gluon.nn.Dense(10))
net.initialize()
net.hybridize()
trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
for _ in range(25):
    for values, labels in mx.gluon.data.DataLoader(Samples(), 32):
        with mx.autograd.record():
            value = loss(net(values), labels)
        value.backward()
        trainer.step(32)
