"""The number of threads is set once more, to what it is."""

import torch

from kernelscope.workloads.pytorch import program


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        torch.set_num_threads(torch.get_num_threads())
