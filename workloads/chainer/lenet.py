"""LeNet-5 for 1x28x28 images, as a Chainer user writes it."""

from typing import Any

import chainer
import chainer.functions as F
import chainer.links as L


class LeNet(chainer.Chain):
    """Two convolutions with average pooling, then three dense layers; tanh throughout."""

    def __init__(self, dropout: bool) -> None:
        super(LeNet, self).__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(1, 6, ksize=5, pad=2)
            self.conv2 = L.Convolution2D(6, 16, ksize=5)
            self.fc1 = L.Linear(400, 120)
            self.fc2 = L.Linear(120, 84)
            self.fc3 = L.Linear(84, 10)

    def forward(self, images: Any) -> Any:
        """Return the logits [batch, 10] of images [batch, 1, 28, 28]."""
        x = F.average_pooling_2d(F.tanh(self.conv1(images)), 2)
        x = F.average_pooling_2d(F.tanh(self.conv2(x)), 2)
        x = F.reshape(x, (len(x), -1))
        x = F.tanh(self.fc1(x))
        x = F.tanh(self.fc2(x))
        return self.fc3(x)
