"""FCN-5 and FCN-8 of Shi et al. (2016), as a PyTorch user writes them."""

from typing import Any

from torch import nn


class FCN(nn.Sequential):
    """26,752 inputs and outputs, with `hidden` layers of 1,024 sigmoid units between them."""

    def __init__(self, hidden: int) -> None:
        super(FCN, self).__init__()
        inputs = 26752
        for number in range(1, hidden + 1):
            self.add_module("fc%d" % number, nn.Linear(inputs, 1024))
            self.add_module("sigmoid%d" % number, nn.Sigmoid())
            inputs = 1024
        self.add_module("fc%d" % (hidden + 1), nn.Linear(1024, 26752))


def fcn5() -> Any:
    """Return FCN-5 for vectors [batch, 26752]."""
    return FCN(2)


def fcn8() -> Any:
    """Return FCN-8 for vectors [batch, 26752]."""
    return FCN(5)
