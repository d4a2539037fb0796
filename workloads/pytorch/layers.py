"""Operations that PyTorch users write as functions. Here they are modules, so that every profile shows their names."""

from typing import Any

import torch
from torch import nn


class Add(nn.Module):
    """The sum of two tensors of the same shape."""

    def forward(self, left: Any, right: Any) -> Any:
        """Return left + right."""
        return left + right


class Concat(nn.Module):
    """The concatenation of several tensors' channels."""

    def forward(self, *branches: Any) -> Any:
        """Return [batch, sum of channels, height, width] of branches [batch, channels, height, width]."""
        return torch.cat(branches, dim=1)


class GlobalAveragePool(nn.AdaptiveAvgPool2d):
    """The mean of each channel."""

    def __init__(self) -> None:
        super(GlobalAveragePool, self).__init__(1)

    def forward(self, images: Any) -> Any:
        """Return [batch, channels] of images [batch, channels, height, width]."""
        return super(GlobalAveragePool, self).forward(images).flatten(1)
