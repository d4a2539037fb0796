"""Several devices, as Keras's guides to its backends have it.

On JAX a DataParallel distribution keeps a copy of every variable on each device, and XLA computes on whole batches of which each
device has a share: normalisations are over the whole batch. On TensorFlow a MirroredStrategy has a copy of the model on each
device, with normalisations over its own share. Where Keras would give every device all of a batch, as train_on_batch does on
TensorFlow and predict_on_batch on JAX, it gets batches that are divided already.
"""

from typing import Any, Dict, Iterable, Iterator

import keras
import numpy

from kernelscope.workloads.keras import program, weights
from kernelscope.workloads.networks import Array, Network
from kernelscope.workloads.program import Batch, Options


class Program(program.Program):
    """One network on `devices` devices of this machine; options["batch"] is shared by them."""

    def __init__(self, network: Network, options: Options) -> None:
        backend = keras.backend.backend()
        if backend not in _DISTRIBUTIONS:
            reason = "Keras distributes on JAX and TensorFlow"
            raise ValueError("keras-%s: a step on %d devices is not supported: %s" % (backend, options["devices"], reason))
        self.distribution: Any = _DISTRIBUTIONS[backend](options)
        with self.distribution.scope():
            super(Program, self).__init__(network, options)
        if backend == "tensorflow" and self.mode == "train":
            # Keras looks at its first batch to build the loss and the optimizer, which it cannot do at one in parts
            one = numpy.zeros((1,) + tuple(network.input_shape), "int64" if network.words else "float32")
            self.model.test_on_batch(weights.channels_last(one), numpy.zeros(1, "int64"))

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch divided among the devices."""
        for images, labels in host_batches:
            yield self.distribution.shares(images), self.distribution.shares(labels)

    def outputs(self, images: Any) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        return self.model.predict_on_batch(self.distribution.shares(weights.channels_last(images)))


class _OnJax(object):
    """Copies and shares by keras.distribution."""

    def __init__(self, options: Options) -> None:
        from kernelscope.workloads.jax import parallel
        from kernelscope.workloads.jax.program import platform

        self.sharding = parallel.sharding(platform(options), options["devices"], "batch")
        names = ["%s:%d" % (device.platform, device.id) for device in self.sharding.mesh.devices]
        self.distribution = keras.distribution.DataParallel(devices=names)

    def scope(self) -> Any:
        """Return the context in which the model is built; the distribution goes on after it."""
        keras.distribution.set_distribution(self.distribution)
        return self.distribution.scope()

    def shares(self, values: Any) -> Any:
        """Return a batch of which each device has a share."""
        import jax

        return jax.device_put(values, self.sharding)


class _OnTensorFlow(object):
    """Copies and shares by tf.distribute."""

    def __init__(self, options: Options) -> None:
        from kernelscope.workloads.tensorflow import parallel

        parallel.refuse_records(options, "keras-tensorflow")
        self.strategy = parallel.make_strategy(options)
        self._shares = parallel.shares

    def scope(self) -> Any:
        """Return the context in which the model is built."""
        return self.strategy.scope()

    def shares(self, values: Any) -> Any:
        """Return a batch as what each replica has of it."""
        return self._shares(self.strategy, values)


_DISTRIBUTIONS: Dict[str, Any] = {"jax": _OnJax, "tensorflow": _OnTensorFlow}
