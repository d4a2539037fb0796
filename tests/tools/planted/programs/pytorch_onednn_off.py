"""oneDNN switched off: convolutions go through PyTorch's own im2col and matrix products."""

import torch

from kernelscope.workloads.pytorch import program


class Program(program.Program):
    def __init__(self, network, options):
        torch.backends.mkldnn.set_flags(False)
        super().__init__(network, options)
