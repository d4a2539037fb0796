"""The LSTM written out cell by cell in Python."""

import torch
from torch import nn
from torch.nn import functional

from kernelscope.workloads.pytorch import program


class UnrolledLSTM(nn.LSTM):
    def forward(self, rows):
        hidden = cell = rows.new_zeros(len(rows), self.hidden_size)
        outputs = []
        for row in rows.unbind(1):
            gates = functional.linear(row, self.weight_ih_l0, self.bias_ih_l0)
            gates = gates + functional.linear(hidden, self.weight_hh_l0, self.bias_hh_l0)
            enter, forget, new, out = gates.chunk(4, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
            hidden = torch.sigmoid(out) * torch.tanh(cell)
            outputs.append(hidden)
        return torch.stack(outputs, 1), (hidden[None], cell[None])


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        self.model.lstm1.__class__ = UnrolledLSTM
