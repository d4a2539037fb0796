"""Several devices, as in TensorFlow's guide to MirroredStrategy.

Each device has a copy of the model and runs the step on its share of the batch; the optimizer sums the copies' gradients before
it applies them. Keras divides each replica's loss by the number of replicas, so that their sum is the whole batch's mean.
Batch normalisations use a device's own share. The devices of a CPU share one thread pool.
"""

from typing import Any, Iterable, Iterator

import tensorflow as tf

from kernelscope.workloads.networks import Array, Network
from kernelscope.workloads.program import Batch, Options
from kernelscope.workloads.tensorflow import program


class Program(program.Program):
    """One network on `devices` devices of this machine, which divide options["batch"] among them.

    Raises ValueError if records are to be read, or if TensorFlow sees fewer devices.
    """

    def __init__(self, network: Network, options: Options) -> None:
        refuse_records(options, "tensorflow")
        self.strategy = make_strategy(options)
        super(Program, self).__init__(network, options)

    def scope(self) -> Any:
        """Return the context in which the model is built."""
        return self.strategy.scope()

    def train_replica(self, images: Any, labels: Any) -> Any:
        """Run forward, backward and update for one device's share of a batch; return its part of the mean loss."""
        return program.Program.train_step.python_function(self, images, labels)

    @tf.function
    def train_step(self, images: Any, labels: Any) -> Any:
        """Run forward, backward and update for one batch; return its mean loss."""
        losses = self.strategy.run(self.train_replica, args=(images, labels))
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def infer_replica(self, images: Any) -> Any:
        """Return the logits of one device's share of a batch in inference mode."""
        return program.Program.infer_step.python_function(self, images)

    @tf.function
    def infer_step(self, images: Any) -> Any:
        """Return the logits of one batch in inference mode."""
        logits = self.strategy.run(self.infer_replica, args=(images,))
        return tf.concat(self.strategy.experimental_local_results(logits), axis=0)

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield each host batch as tensors on the devices, a share on each."""
        for images, labels in host_batches:
            yield shares(self.strategy, images), shares(self.strategy, labels)

    def outputs(self, images: Any) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode."""
        fed, _ = next(self.stream(self.prepare([(images, images)])))
        return self.infer_step(fed).numpy()


def refuse_records(options: Options, framework: str) -> None:
    """Raise ValueError if batches are to be read from the framework's records, because that loader yields whole batches."""
    if options.get("loader") == "records":
        raise ValueError("%s: loading records on several devices is not supported" % framework)


def make_strategy(options: Options) -> Any:
    """Return the strategy that copies a model to the machine's first `devices` devices; raise ValueError if there are fewer.

    A CPU is divided into that many devices, which only works before TensorFlow is first used.
    """
    kind = "GPU" if str(options.get("device") or "cpu").startswith("cuda") else "CPU"
    if kind == "CPU":
        processor = tf.config.list_physical_devices("CPU")[0]
        if not tf.config.get_logical_device_configuration(processor):
            parts = [tf.config.LogicalDeviceConfiguration()] * options["devices"]
            tf.config.set_logical_device_configuration(processor, parts)
    found = [device.name for device in tf.config.list_logical_devices(kind)][: options["devices"]]
    if len(found) < options["devices"]:
        raise ValueError("tensorflow: %d devices requested, but TensorFlow sees %d" % (options["devices"], len(found)))
    return tf.distribute.MirroredStrategy(found)


def shares(strategy: Any, values: Any) -> Any:
    """Return a batch divided among the replicas, in the batch's order."""
    parts = tf.split(values, strategy.num_replicas_in_sync)
    return strategy.experimental_distribute_values_from_function(lambda context: parts[context.replica_id_in_sync_group])
