"""The optimizers in the networks' descriptions, for every backend of Keras."""

from typing import Any

import keras

from kernelscope.workloads.networks import Settings


class RMSprop(keras.optimizers.RMSprop):
    """RMSprop with epsilon outside the square root: w -= rate * g / (sqrt(v) + epsilon).

    Keras adds epsilon under the root. No value there gives the same update: gradients near epsilon move their weights by up to
    a third more or less. That alone changes the third loss by more than the 0.1% that a fair comparison allows.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: float) -> None:
        """Apply one gradient, with as many operators as the original."""
        ops = keras.ops
        rate = ops.cast(learning_rate, variable.dtype)
        velocity = self._velocities[self._get_variable_index(variable)]
        square = ops.multiply(1 - self.rho, ops.square(gradient))
        self.assign(velocity, ops.add(ops.multiply(self.rho, velocity), square))
        denominator = ops.add(ops.sqrt(velocity), self.epsilon)
        self.assign_sub(variable, ops.divide(ops.multiply(rate, gradient), denominator))


def make_optimizer(settings: Settings) -> Any:
    """Return the optimizer in a network's description; raise ValueError for an unknown one.

    Adam is Keras's own, which adds epsilon to the root before the bias correction, not after it. In the first step epsilon
    counts 32 times as much as in the description, which has no effect with 1e-8 against gradients of 1e-5.
    """
    if settings["name"] == "sgd":
        return keras.optimizers.SGD(settings["learning_rate"], momentum=settings["momentum"])
    if settings["name"] == "rmsprop":
        return RMSprop(settings["learning_rate"], rho=settings["decay"], epsilon=1e-7)
    if settings["name"] == "adam":
        rate, epsilon = settings["learning_rate"], settings["epsilon"]
        return keras.optimizers.Adam(rate, beta_1=settings["beta1"], beta_2=settings["beta2"], epsilon=epsilon)
    raise ValueError("keras: unknown optimizer %r" % settings["name"])
