"""Several devices, as in Keras's guides to its backends.

On JAX, a DataParallel distribution keeps a copy of every variable on each device. XLA computes on whole batches of which each
device has a share, so batch normalisations use the whole batch. On TensorFlow, a MirroredStrategy keeps a copy of the model on
each device, and batch normalisations use the device's own share. Some methods of Keras would give every device the whole batch
(train_on_batch on TensorFlow, predict_on_batch on JAX), so they get batches that are already divided.
"""

from typing import Any, Dict, Iterable, Iterator

import keras
import numpy

from kernelscope.workloads.keras import program, weights
from kernelscope.workloads.networks import Array, Network
from kernelscope.workloads.program import Batch, Options


class Program(program.Program):
    """One network on `devices` devices of this machine, which divide options["batch"] among them.

    Raises ValueError for another backend than JAX and TensorFlow, or if the backend sees fewer devices.
    """

    def __init__(self, network: Network, options: Options) -> None:
        backend = keras.backend.backend()
        if backend not in _DISTRIBUTIONS:
            reason = "Keras distributes on JAX and TensorFlow only"
            raise ValueError("keras-%s: a step on %d devices is not supported: %s" % (backend, options["devices"], reason))
        self.distribution: Any = _DISTRIBUTIONS[backend](options)
        with self.distribution.scope():
            super(Program, self).__init__(network, options)
        if backend == "tensorflow" and self.mode == "train":
            # Keras builds the loss and the optimizer from its first batch, which must not be divided
            one = numpy.zeros((1,) + tuple(network.input_shape), "int64" if network.words else "float32")
            self.model.test_on_batch(weights.channels_last(one), numpy.zeros(1, "int64"))

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch divided among the devices."""
        for images, labels in host_batches:
            yield self.distribution.shares(images), self.distribution.shares(labels)

    def outputs(self, images: Any) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode."""
        return self.model.predict_on_batch(self.distribution.shares(weights.channels_last(images)))


class _OnJax(object):
    """Copies the model and divides batches by keras.distribution."""

    def __init__(self, options: Options) -> None:
        from kernelscope.workloads.jax import parallel
        from kernelscope.workloads.jax.program import platform

        self.sharding = parallel.sharding(platform(options), options["devices"], "batch")
        names = ["%s:%d" % (device.platform, device.id) for device in self.sharding.mesh.devices]
        self.distribution = keras.distribution.DataParallel(devices=names)

    def scope(self) -> Any:
        """Return the context in which the model is built; the distribution stays in effect after it."""
        keras.distribution.set_distribution(self.distribution)
        return self.distribution.scope()

    def shares(self, values: Any) -> Any:
        """Return a batch divided among the devices."""
        import jax

        return jax.device_put(values, self.sharding)


class _OnTensorFlow(object):
    """Copies the model and divides batches by tf.distribute."""

    def __init__(self, options: Options) -> None:
        from kernelscope.workloads.tensorflow import parallel

        parallel.refuse_records(options, "keras-tensorflow")
        self.strategy = parallel.make_strategy(options)
        self._shares = parallel.shares

    def scope(self) -> Any:
        """Return the context in which the model is built."""
        return self.strategy.scope()

    def shares(self, values: Any) -> Any:
        """Return a batch divided among the replicas."""
        return self._shares(self.strategy, values)


_DISTRIBUTIONS: Dict[str, Any] = {"jax": _OnJax, "tensorflow": _OnTensorFlow}
