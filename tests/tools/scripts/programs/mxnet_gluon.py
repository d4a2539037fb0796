from __future__ import print_function

import argparse
import logging
import random

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

logging.basicConfig(level=logging.INFO)

parser = argparse.ArgumentParser(description='Gluon CNN on synthetic images')
parser.add_argument('--batch-size', type=int, default=24)
parser.add_argument('--num-steps', type=int, default=400)
parser.add_argument('--lr', type=float, default=0.02)
parser.add_argument('--log-interval', type=int, default=50)
opt = parser.parse_args()

mx.random.seed(123)
np.random.seed(123)
random.seed(123)
ctx = mx.cpu()


def synthetic(n, num_classes=10):
    label = np.random.randint(0, num_classes, size=(n,)).astype('int32')
    proto = np.random.RandomState(9).uniform(0, 255, (num_classes, 28, 28, 1))
    noise = np.random.uniform(0, 255, (n, 28, 28, 1))
    data = (0.5 * proto[label] + 0.5 * noise).astype('uint8')
    return gluon.data.ArrayDataset(data, label)


def transform(data, label):
    # data is HWC uint8
    if random.random() < 0.5:
        data = data[:, ::-1]
    data = data.transpose(2, 0, 1).astype('float32') / 255
    return data, label


def batchify(samples):
    data, label = zip(*samples)
    return nd.array(np.stack(data)), nd.array(np.array(label))


class ConvBlock(gluon.HybridBlock):
    def __init__(self, channels, **kwargs):
        super(ConvBlock, self).__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv2D(channels, kernel_size=3, padding=1, use_bias=False)
            self.bn = nn.BatchNorm()
            self.act = nn.Activation('relu')

    def hybrid_forward(self, F, x):
        return self.act(self.bn(self.conv(x)))


class RowGRU(gluon.HybridBlock):
    """Reads a (N, C, H, W) feature map row by row, returns the last state."""
    def __init__(self, hidden, rows, **kwargs):
        super(RowGRU, self).__init__(**kwargs)
        self.rows = rows
        with self.name_scope():
            self.cell = gluon.rnn.GRUCell(hidden)

    def hybrid_forward(self, F, x):
        seq = F.transpose(x, axes=(0, 2, 1, 3)).reshape((0, 0, -1))
        outputs, _ = self.cell.unroll(self.rows, seq, layout='NTC', merge_outputs=False)
        return outputs[-1]


def build_net():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(ConvBlock(16))
        net.add(nn.MaxPool2D(2))
        net.add(ConvBlock(32))
        net.add(ConvBlock(32))
        net.add(RowGRU(64, rows=14))
        net.add(nn.Dense(10))
    return net


def test(net, loader):
    metric = mx.metric.Accuracy()
    for data, label in loader:
        output = net(data.as_in_context(ctx))
        metric.update([label], [output])
    return metric.get()[1]


def train():
    train_data = gluon.data.DataLoader(
        synthetic(4096).transform(transform), batch_size=opt.batch_size,
        shuffle=True, last_batch='discard', batchify_fn=batchify)
    val_data = gluon.data.DataLoader(
        synthetic(128).transform(transform), batch_size=64, batchify_fn=batchify)

    net = build_net()
    net.initialize(mx.init.Xavier(magnitude=2.24), ctx=ctx)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), 'sgd',
                            {'learning_rate': opt.lr, 'momentum': 0.9})
    loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
    metric = mx.metric.Loss()

    step = 0
    while step < opt.num_steps:
        for data, label in train_data:
            data = data.as_in_context(ctx)
            label = label.as_in_context(ctx)
            with autograd.record():
                output = net(data)
                loss = loss_fn(output, label)
            loss.backward()
            trainer.step(data.shape[0])
            metric.update(0, [loss])
            step += 1

            if step % opt.log_interval == 0:
                logging.info('[step %d] loss=%f', step, metric.get()[1])
                metric.reset()
            if step % 100 == 0:
                logging.info('[step %d] validation acc=%f', step, test(net, val_data))
            if step >= opt.num_steps:
                break


if __name__ == '__main__':
    train()
