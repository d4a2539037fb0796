"""One processor thread where the other side has two."""

from kernelscope.workloads.pytorch import program


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, dict(options, threads=1))
