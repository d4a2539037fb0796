"""The loss of the classifiers, for every backend of Keras 2."""

from typing import Any

from keras import backend


def loss(labels: Any, logits: Any) -> Any:
    """Return the cross entropy [batch] of logits [batch, classes] and one-hot labels [batch, classes]."""
    return backend.categorical_crossentropy(labels, logits, from_logits=True)
