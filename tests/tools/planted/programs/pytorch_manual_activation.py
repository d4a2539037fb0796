"""tanh written out as ten elementwise calls."""

import torch
from torch import nn

from kernelscope.workloads.pytorch import program


class ManualTanh(nn.Module):
    def forward(self, values):
        bounded = values.clamp(-9.0, 9.0)
        positive = torch.exp(bounded)
        negative = torch.exp(torch.neg(bounded))
        odd = torch.sub(positive, negative)
        even = torch.add(positive, negative)
        half_odd, half_even = odd.mul(0.5), even.mul(0.5)
        return half_odd.mul(half_even.reciprocal())


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        for name, module in list(self.model.named_children()):
            if isinstance(module, nn.Tanh):
                setattr(self.model, name, ManualTanh())
