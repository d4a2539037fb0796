"""Each convolution gets its input copied to channels-last and hands its output back copied to channels-first."""

import torch
from torch import nn

from kernelscope.workloads.pytorch import program


def between_copies(forward):
    def copying(images):
        output = forward(images.contiguous(memory_format=torch.channels_last))
        return output.contiguous(memory_format=torch.contiguous_format)

    return copying


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        for module in self.model.modules():
            if isinstance(module, nn.Conv2d):
                module.forward = between_copies(module.forward)
