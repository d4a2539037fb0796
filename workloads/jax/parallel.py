"""Several devices, as JAX's guide to distributed arrays has it.

Each device has a copy of what all samples share and its part of a batch; XLA adds what brings their sums together, as for any
program whose arrays are divided so. Normalisations are over the whole batch. The devices of a processor share a pool of threads.
"""

import contextlib
import os
from typing import Any, Iterable, Iterator

import jax
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from kernelscope.workloads.jax import program
from kernelscope.workloads.networks import Array
from kernelscope.workloads.program import Batch, Options


class Program(program.Program):
    """One network on `devices` devices of this machine; options["batch"] is shared by them."""

    def place(self, options: Options) -> Any:
        """Return where what all samples share is put: a copy on each device."""
        self.shares = sharding(program.platform(options), options["devices"], "batch")
        return NamedSharding(self.shares.mesh, PartitionSpec())

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch as arrays of which each device has a share."""
        for images, labels in host_batches:
            yield jax.device_put(images, self.shares), jax.device_put(labels, self.shares)

    def outputs(self, images: Any) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        fed, _ = next(self.stream(self.prepare([(images, images)])))
        return numpy.asarray(self.infer_step(self.parameters_of, self.statistics, fed))


def sharding(platform: str, count: int, name: str) -> Any:
    """Return how batches are divided among the first `count` devices of a platform, cpu or gpu, as one axis of this name.

    The processor is divided into as many devices, unless JAX has begun or XLA_FLAGS does it. Raises ValueError for more devices
    than there are.
    """
    if platform == "cpu" and "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", count)
    found = jax.devices(platform)
    if len(found) < count:
        remedy = "XLA_FLAGS or CUDA_VISIBLE_DEVICES says how many there are"
        raise ValueError("jax: %d devices are asked for, and JAX sees %d: %s" % (count, len(found), remedy))
    return NamedSharding(Mesh(numpy.array(found[:count]), (name,)), PartitionSpec(name))
