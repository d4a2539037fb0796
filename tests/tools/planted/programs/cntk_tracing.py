"""CNTK prints what every node does in every step."""

import cntk

from kernelscope.workloads.cntk import program


class Program(program.Program):
    def __init__(self, network, options):
        cntk.debugging.set_computation_network_trace_level(1000)
        super(Program, self).__init__(network, options)
