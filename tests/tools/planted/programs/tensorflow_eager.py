"""Steps run eagerly, operator by operator, where the other side compiles them into a graph."""

import tensorflow as tf

from kernelscope.workloads.tensorflow import program


class Program(program.Program):
    def __init__(self, network, options):
        tf.config.run_functions_eagerly(True)
        super().__init__(network, options)
