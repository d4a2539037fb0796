"""The model is asked for channels-last, which concerns convolutions, and has none."""

import torch

from kernelscope.workloads.pytorch import program


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        self.model.to(memory_format=torch.channels_last)
