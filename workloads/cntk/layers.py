"""What cntk.layers has in another form than the networks need."""

from typing import Any

import cntk as C
from cntk.layers import BlockFunction, GlobalAveragePooling


def global_average_pooling(name: str) -> Any:
    """Return the mean of each channel as a row: cntk.layers leaves two axes of size 1."""
    pool = GlobalAveragePooling()

    @BlockFunction("GlobalAveragePooling", name)
    def pooled(features):  # type: (Any) -> Any
        return C.squeeze(pool(features))

    return pooled
