"""A wide perceptron, hybridized with its memory planned once; its data is in memory."""
import sys

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
mx.random.seed(0)
net = nn.HybridSequential()
net.add(nn.Dense(1536, activation="relu"), nn.Dense(1536, activation="relu"), nn.Dense(512))
net.initialize()
net.hybridize(static_alloc=True, static_shape=True)
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
loss_fn.hybridize(static_alloc=True, static_shape=True)
x, y = nd.random.normal(shape=(512, 1536)), nd.random.randint(0, 512, shape=(512,))

for step in range(STEPS):
    with autograd.record():
        loss = loss_fn(net(x), y)
    loss.backward()
    trainer.step(512)
nd.waitall()
