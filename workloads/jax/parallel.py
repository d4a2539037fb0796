"""Several devices, as in JAX's guide to distributed arrays.

Each device has its share of a batch and a copy of everything else. XLA inserts the collectives that sum over the devices, as
for any program with arrays sharded in this way. Batch normalisations use the whole batch. The devices of a CPU share one thread
pool.
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
    """One network on `devices` devices of this machine, which divide options["batch"] among them.

    Raises ValueError if JAX sees fewer devices.
    """

    def place(self, options: Options) -> Any:
        """Return the sharding of parameters and other shared values: a copy on each device."""
        self.shares = sharding(program.platform(options), options["devices"], "batch")
        return NamedSharding(self.shares.mesh, PartitionSpec())

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch as arrays divided among the devices."""
        for images, labels in host_batches:
            yield jax.device_put(images, self.shares), jax.device_put(labels, self.shares)

    def outputs(self, images: Any) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        fed, _ = next(self.stream(self.prepare([(images, images)])))
        return numpy.asarray(self.infer_step(self.parameters_of, self.statistics, fed))


def sharding(platform: str, count: int, name: str) -> Any:
    """Return the sharding of batches over the first `count` devices of a platform (cpu or gpu), as one mesh axis of this name.

    A CPU is divided into that many devices, unless JAX is already in use or XLA_FLAGS divides it. Raises ValueError if JAX sees
    fewer devices.
    """
    if platform == "cpu" and "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", count)
    found = jax.devices(platform)
    if len(found) < count:
        remedy = "XLA_FLAGS or CUDA_VISIBLE_DEVICES sets how many it sees"
        raise ValueError("jax: %d devices requested, but JAX sees %d: %s" % (count, len(found), remedy))
    return NamedSharding(Mesh(numpy.array(found[:count]), (name,)), PartitionSpec(name))
