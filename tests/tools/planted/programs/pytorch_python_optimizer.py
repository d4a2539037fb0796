"""An optimizer in plain Python: it walks through the parameters and updates each in small steps of its own."""

import torch

from kernelscope.workloads.pytorch import program


class LoopedSGD(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if "velocity" not in state:
                    state["velocity"] = torch.zeros_like(parameter)
                for values, velocity, gradient in zip(parameter, state["velocity"], parameter.grad):
                    velocity.copy_(velocity * group["momentum"] + gradient)
                    values.copy_(values - velocity * group["lr"])


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        settings = network.optimizer
        self.optimizer = LoopedSGD(self.model.parameters(), settings["learning_rate"], settings["momentum"])
