"""The workload in PyTorch with the model's weights and its images channels last."""

import torch

from kernelscope.workloads.pytorch import program


class Program(program.Program):
    """The same network; only the order of its tensors' axes in memory is another."""

    def __init__(self, network, options):
        super().__init__(network, options)
        self.model = self.model.to(memory_format=torch.channels_last)

    def stream(self, host_batches):
        """Yield each host batch as tensors, images channels last."""
        for images, labels in super().stream(host_batches):
            yield images.contiguous(memory_format=torch.channels_last), labels
