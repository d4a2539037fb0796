"""The network is not hybridized: Python calls every operator by itself."""

from kernelscope.workloads.mxnet import program


class Program(program.Program):
    def __init__(self, network, options):
        super().__init__(network, options)
        self.net.hybridize(False)
