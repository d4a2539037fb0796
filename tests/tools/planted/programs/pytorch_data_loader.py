"""Batches come through a loader of the user's own, which has them all and only hands them on."""

from kernelscope.workloads.pytorch import program


class Loader:
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.batches)


class Program(program.Program):
    def stream(self, host_batches):
        return iter(Loader(super().stream(host_batches)))
