"""Layers that cntk.layers has only in another form than the networks need."""

from typing import Any

import cntk as C
from cntk.layers import BlockFunction, GlobalAveragePooling


def global_average_pooling(name: str) -> Any:
    """Return a layer that takes the mean of each channel as a vector; cntk.layers' own leaves two axes of size 1."""
    pool = GlobalAveragePooling()

    @BlockFunction("GlobalAveragePooling", name)
    def pooled(features):  # type: (Any) -> Any
        return C.squeeze(pool(features))

    return pooled
