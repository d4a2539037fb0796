"""Every layer's output is cloned for nothing, by six callers one after the other who each want to be safe."""

from kernelscope.workloads.pytorch import program

CALLERS = 6


def cloning(forward):
    def with_clones(values):
        output = forward(values)
        for _ in range(CALLERS):
            output = output.clone()
        return output

    return with_clones


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        for module in self.model.children():
            module.forward = cloning(module.forward)
