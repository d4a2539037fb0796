"""Train a small decoder in Flax, as a first version of a script does it: float32, data made by numpy, the loss printed."""

import argparse

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Block(nn.Module):
    """Attention and two layers of a perceptron."""

    heads: int
    width: int

    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(x))))


class Decoder(nn.Module):
    """Tokens in, logits out."""

    vocabulary: int
    width: int
    layers: int

    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(self.vocabulary, self.width)(ids) + nn.Embed(ids.shape[1], self.width)(jnp.arange(ids.shape[1]))
        for _ in range(self.layers):
            x = Block(self.width // 64, self.width)(x)
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    arguments = parser.parse_args()
    model = Decoder(8000, arguments.width, arguments.layers)
    rng = np.random.default_rng(0)
    parameters = model.init(jax.random.key(0), jnp.zeros((1, arguments.length), jnp.int32))
    optimizer = optax.adam(3e-4)
    state = optimizer.init(parameters)

    def loss_of(parameters, ids):
        logits = model.apply(parameters, ids[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, ids[:, 1:]).mean()

    @jax.jit
    def train(parameters, state, ids):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, ids)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    for step in range(arguments.steps):
        ids = rng.integers(0, 8000, (arguments.batch, arguments.length + 1))
        parameters, state, loss = train(parameters, state, ids)
        if step % 10 == 0:
            print(f"step {step}: {float(loss):.4f}")


if __name__ == "__main__":
    main()
