"""The first dense layer computes in double precision, between two conversions."""

from torch import nn

from kernelscope.workloads.pytorch import program


class DoubleLinear(nn.Linear):
    def forward(self, values):
        return super().forward(values.double()).float()


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        first = self.model.fc1
        self.model.fc1 = DoubleLinear(first.in_features, first.out_features).double()
        self.optimizer = program.make_optimizer(network.optimizer, self.model.parameters())
