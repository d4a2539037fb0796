"""The update rules of the networks' descriptions, in Lasagne's form."""

from collections import OrderedDict
from typing import Any

import lasagne
import theano
import theano.tensor as T

from kernelscope.workloads.networks import Settings


def rmsprop(loss: Any, parameters: Any, learning_rate: float, rho: float, epsilon: float) -> Any:
    """Return the updates of RMSprop with epsilon outside the square root; Lasagne's own has it inside."""
    updates = OrderedDict()
    for parameter, gradient in zip(parameters, theano.grad(loss, parameters)):
        square = theano.shared(parameter.get_value() * 0, broadcastable=parameter.broadcastable)
        updates[square] = rho * square + (1 - rho) * T.sqr(gradient)
        updates[parameter] = parameter - learning_rate * gradient / (T.sqrt(updates[square]) + epsilon)
    return updates


def make_updates(settings: Settings, loss: Any, parameters: Any) -> Any:
    """Return the updates of the optimizer in a network's description; raise ValueError for one that is not supported.

    parameters: Theano's shared variables.
    """
    if settings["name"] == "sgd":
        return lasagne.updates.momentum(loss, parameters, settings["learning_rate"], settings["momentum"])
    if settings["name"] == "rmsprop":
        return rmsprop(loss, parameters, settings["learning_rate"], settings["decay"], 1e-7)
    raise ValueError("lasagne: optimizer %s is not supported" % settings["name"])
