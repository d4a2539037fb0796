"""A training script with modules of flax.nnx or of Equinox, as somebody writes one who does not know of us."""

import hashlib
import sys

import jax
import numpy
import optax

WIDE = 256


def batch():
    """Return images and labels."""
    random = numpy.random.default_rng(0)
    return random.normal(size=(64, 64)).astype("float32"), random.integers(0, 10, 64)


def digest(weights):
    """Return what tells whether weights are the same to the last bit."""
    return hashlib.sha256(b"".join(numpy.asarray(one).tobytes() for one in jax.tree_util.tree_leaves(weights))).hexdigest()


def loss_of(logits, labels):
    """Return the loss."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def with_nnx(steps):
    """Train with flax.nnx."""
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.wide, self.norm = nnx.Linear(WIDE, WIDE, rngs=rngs), nnx.LayerNorm(WIDE, rngs=rngs)

        def __call__(self, values):
            return values + nnx.relu(self.wide(self.norm(values)))

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.stem, self.head = nnx.Linear(64, WIDE, rngs=rngs), nnx.Linear(WIDE, 10, rngs=rngs)
            self.blocks = nnx.List([Block(rngs), Block(rngs)])

        def __call__(self, values):
            values = self.stem(values)
            for block in self.blocks:
                values = block(values)
            return self.head(values)

    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    traced = []

    @nnx.jit
    def train_step(model, optimizer, images, labels):
        traced.append(1)
        loss, gradients = nnx.value_and_grad(lambda model: loss_of(model(images), labels))(model)
        optimizer.update(model, gradients)
        return loss

    images, labels = batch()
    for _ in range(steps):
        loss = train_step(model, optimizer, images, labels)
    print(float(loss), digest(nnx.state(model, nnx.Param)), len(traced))


def with_equinox(steps):
    """Train with Equinox."""
    import equinox

    class Block(equinox.Module):
        wide: equinox.nn.Linear
        norm: equinox.nn.LayerNorm

        def __init__(self, key):
            self.wide, self.norm = equinox.nn.Linear(WIDE, WIDE, key=key), equinox.nn.LayerNorm(WIDE)

        def __call__(self, values):
            return values + jax.nn.relu(self.wide(self.norm(values)))

    class Net(equinox.Module):
        stem: equinox.nn.Linear
        blocks: list
        head: equinox.nn.Linear

        def __init__(self, key):
            keys = jax.random.split(key, 4)
            self.stem, self.head = equinox.nn.Linear(64, WIDE, key=keys[0]), equinox.nn.Linear(WIDE, 10, key=keys[1])
            self.blocks = [Block(keys[2]), Block(keys[3])]

        def __call__(self, values):
            values = self.stem(values)
            for block in self.blocks:
                values = block(values)
            return self.head(values)

    model, optimizer = Net(jax.random.key(0)), optax.adam(1e-3)
    state = optimizer.init(equinox.filter(model, equinox.is_array))
    traced = []

    @equinox.filter_jit
    def train_step(model, state, images, labels):
        traced.append(1)
        loss, gradients = equinox.filter_value_and_grad(lambda model: loss_of(jax.vmap(model)(images), labels))(model)
        updates, state = optimizer.update(gradients, state)
        return equinox.apply_updates(model, updates), state, loss

    images, labels = batch()
    for _ in range(steps):
        model, state, loss = train_step(model, state, images, labels)
    alone = equinox.filter_jit(model.__call__)
    print(float(loss), digest(equinox.filter(model, equinox.is_array)), len(traced), alone(images[0]))
    print(model.__call__ == model.__call__, hash(model.__call__.__func__) == hash(type(model).__call__))


if __name__ == "__main__":
    {"nnx": with_nnx, "equinox": with_equinox}[sys.argv[1]](int(sys.argv[2]))
