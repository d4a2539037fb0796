"""Several devices, as in Gluon's guide to them.

Each device has a copy of the parameters and takes its share of the batch; the Trainer sums the copies' gradients through its
key-value store. Batch normalisations use a device's own share. The engine has separate workers for each device of a CPU.
"""

from typing import Any, Iterable, Iterator

import mxnet as mx
import numpy
from mxnet import autograd, gluon

from kernelscope.workloads.mxnet import program
from kernelscope.workloads.networks import Array, Network
from kernelscope.workloads.program import Batch, Options


class Program(program.Program):
    """One network on `devices` devices of this machine, which divide options["batch"] among them.

    Raises ValueError if records are to be read, or if MXNet sees fewer GPUs.
    """

    def __init__(self, network: Network, options: Options) -> None:
        if options.get("loader") == "records":
            raise ValueError("mxnet: loading records on several devices is not supported")
        super(Program, self).__init__(network, options)

    def contexts(self, options: Options) -> Any:
        """Return the devices that have the parameters; raise ValueError if MXNet sees fewer GPUs."""
        if options["device"] != "cuda":
            return [mx.cpu(number) for number in range(options["devices"])]
        if mx.context.num_gpus() < options["devices"]:
            raise ValueError("mxnet: %d devices requested, but MXNet sees %d" % (options["devices"], mx.context.num_gpus()))
        return [mx.gpu(number) for number in range(options["devices"])]

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch as lists of NDArrays, a share on each device."""
        for images, labels in host_batches:
            yield gluon.utils.split_and_load(images, self.context), gluon.utils.split_and_load(labels, self.context)

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss; as on one device, reading it waits for the forward pass only."""
        for images, labels in batches:
            with autograd.record():
                losses = [self.loss(self.net(mine), own) for mine, own in zip(images, labels)]
            for loss in losses:
                loss.backward()
            self.trainer.step(self.batch)
            self.losses.append(float(numpy.mean([loss.mean().asscalar() for loss in losses])))

    def infer(self, batches: Iterable[Any]) -> None:
        """Compute the logits of each batch and copy them to numpy."""
        for images, _labels in batches:
            for logits in [self.net(mine) for mine in images]:
                logits.asnumpy()

    def outputs(self, images: Any) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return numpy.concatenate([self.net(mine).asnumpy() for mine in gluon.utils.split_and_load(images, self.context)])
