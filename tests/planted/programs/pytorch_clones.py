"""Every layer's output is cloned for nothing, by four callers that each want to be safe."""

from kernelscope.workloads.pytorch import program


def cloning(forward):
    def with_clones(values):
        return forward(values).clone().clone().clone().clone()

    return with_clones


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        for module in self.model.children():
            module.forward = cloning(module.forward)
