"""Each batch takes 3 ms to load before it comes."""

import time

from kernelscope.workloads.pytorch import program


def load_slowly(batches):
    for batch in batches:
        time.sleep(0.003)
        yield batch


class Program(program.Program):
    def stream(self, host_batches):
        return super().stream(load_slowly(host_batches))
