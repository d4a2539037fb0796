"""A layer that does nothing behind every other one, and layers under other names."""

from torch import nn

from kernelscope.workloads.pytorch import program


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        self.model.last = nn.Identity()
        forward = self.model.forward
        self.model.forward = lambda images: self.model.last(forward(images))
