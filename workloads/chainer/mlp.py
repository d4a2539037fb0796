"""The multi-layer perceptron for vectors of 784 numbers, as a Chainer user writes it."""

from typing import Any

import chainer
import chainer.functions as F
import chainer.links as L


class MLP(chainer.Chain):
    """Two hidden layers of 512 units with ReLU and dropout."""

    def __init__(self, dropout: bool) -> None:
        super(MLP, self).__init__()
        self.dropout = 0.2 if dropout else 0.0
        with self.init_scope():
            self.fc1 = L.Linear(784, 512)
            self.fc2 = L.Linear(512, 512)
            self.fc3 = L.Linear(512, 10)

    def forward(self, vectors: Any) -> Any:
        """Return the logits [batch, 10] of vectors [batch, 784]."""
        x = F.dropout(F.relu(self.fc1(vectors)), self.dropout)
        x = F.dropout(F.relu(self.fc2(x)), self.dropout)
        return self.fc3(x)
