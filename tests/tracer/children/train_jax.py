"""A training script of JAX and optax, as somebody writes one who does not know of us: scopes, donated and static arguments."""

import functools
import hashlib
import sys

import jax
import numpy
import optax

SIZES = {"stem": (256, 512), "body": (512, 512), "head": (512, 10)}


def initialise(key):
    """Return the weights."""
    keys = jax.random.split(key, len(SIZES))
    return {name: jax.random.normal(one, shape) * 0.05 for one, (name, shape) in zip(keys, SIZES.items(), strict=True)}


def network(weights, values, activation):
    """Return the logits."""
    with jax.named_scope("Net"):
        for name in SIZES:
            with jax.named_scope(name):
                values = values @ weights[name]
                if name != "head":
                    values = activation(values)
    return values


optimizer = optax.adam(1e-3)


@functools.partial(jax.jit, donate_argnums=(0, 1), static_argnames="activation")
def train_step(weights, state, images, labels, activation):
    """Return what changed, and the loss."""

    def loss(weights):
        logits = network(weights, images, activation)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, gradients = jax.value_and_grad(loss)(weights)
    updates, state = optimizer.update(gradients, state, weights)
    return optax.apply_updates(weights, updates), state, value


@jax.jit
def accuracy(weights, images, labels):
    """Return the share of right answers."""
    return (network(weights, images, jax.nn.relu).argmax(axis=1) == labels).mean()


def main(steps, every=15):
    """Train; print losses, and every so many steps the accuracy."""
    random = numpy.random.default_rng(0)
    images, labels = random.normal(size=(4, 128, 256)).astype("float32"), random.integers(0, 10, (4, 128))
    weights = initialise(jax.random.key(0))
    state = optimizer.init(weights)
    for step in range(steps):
        weights, state, loss = train_step(weights, state, images[step % 4], labels[step % 4], activation=jax.nn.relu)
        if step % every == every - 1:
            print(step, float(loss), float(accuracy(weights, images[0], labels[0])))
    print(hashlib.sha256(b"".join(numpy.asarray(weight).tobytes() for weight in weights.values())).hexdigest())
    print(repr(train_step).partition(" at ")[0], train_step.__name__, train_step.__doc__, train_step._cache_size())
    return 3


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
