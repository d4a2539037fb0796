"""The CIFAR-10 network of the comparison of eleven frameworks, as a Chainer user writes it."""

from typing import Any

import chainer
import chainer.functions as F
import chainer.links as L


class CifarCNN(chainer.Chain):
    """Two pairs of padded 3x3 convolutions of 50 and 100 channels with max pooling, then two dense layers."""

    def __init__(self, dropout: bool) -> None:
        super(CifarCNN, self).__init__()
        self.rate = 1.0 if dropout else 0.0
        with self.init_scope():
            self.conv1 = L.Convolution2D(3, 50, ksize=3, pad=1)
            self.conv2 = L.Convolution2D(50, 50, ksize=3, pad=1)
            self.conv3 = L.Convolution2D(50, 100, ksize=3, pad=1)
            self.conv4 = L.Convolution2D(100, 100, ksize=3, pad=1)
            self.fc1 = L.Linear(6400, 512)
            self.fc2 = L.Linear(512, 10)

    def forward(self, images: Any) -> Any:
        """Return the logits [batch, 10] of images [batch, 3, 32, 32]."""
        x = F.relu(self.conv1(images))
        x = F.relu(self.conv2(x))
        x = F.dropout(F.max_pooling_2d(x, 2), 0.25 * self.rate)
        x = F.relu(self.conv3(x))
        x = F.relu(self.conv4(x))
        x = F.dropout(F.max_pooling_2d(x, 2), 0.25 * self.rate)
        x = F.reshape(x, (len(x), -1))
        x = F.dropout(F.relu(self.fc1(x)), 0.5 * self.rate)
        return self.fc2(x)
