"""Plain JAX convnet: no flax, no optax. Params are nested dicts."""
import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

DIMS = ("NHWC", "HWIO", "NHWC")


def conv_init(key, kh, kw, cin, cout):
    scale = np.sqrt(2.0 / (kh * kw * cin))
    return {"w": scale * jax.random.normal(key, (kh, kw, cin, cout)),
            "b": jnp.zeros((cout,))}


def init_params(key, channels=(24, 48, 64), n_classes=8):
    keys = jax.random.split(key, len(channels) + 1)
    params, cin = {}, 1
    for i, c in enumerate(channels):
        params[f"conv{i}"] = conv_init(keys[i], 3, 3, cin, c)
        cin = c
    params["dense"] = {
        "w": 0.05 * jax.random.normal(keys[-1], (cin * 4 * 4, n_classes)),
        "b": jnp.zeros((n_classes,)),
    }
    return params


def conv(p, x):
    y = lax.conv_general_dilated(x, p["w"], (1, 1), "SAME", dimension_numbers=DIMS)
    return y + p["b"]


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def forward(params, x):
    x = pool(jax.nn.relu(conv(params["conv0"], x)))
    x = pool(jax.nn.relu(conv(params["conv1"], x)))
    x = pool(jax.nn.relu(conv(params["conv2"], x)))
    x = x.reshape(x.shape[0], -1)
    return x @ params["dense"]["w"] + params["dense"]["b"]


def loss_fn(params, x, y):
    logp = jax.nn.log_softmax(forward(params, x))
    nll = -jnp.take_along_axis(logp, y[:, None], axis=1).mean()
    l2 = sum(jnp.sum(p ** 2) for p in jax.tree.leaves(params))
    return nll + 1e-5 * l2


@partial(jax.jit, static_argnames=("momentum",))
def train_step(params, velocity, x, y, lr, momentum=0.9):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, params, velocity)
    return params, velocity, loss


@jax.jit
def accuracy(params, x, y):
    return jnp.mean(jnp.argmax(forward(params, x), -1) == y)


def make_images(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 8, n)
    yy, xx = np.mgrid[0:32, 0:32]
    ang = y * np.pi / 8
    phase = (xx[None] * np.cos(ang)[:, None, None] + yy[None] * np.sin(ang)[:, None, None])
    x = np.sin(phase * 0.8) + 0.5 * rng.standard_normal((n, 32, 32))
    return x[..., None].astype(np.float32), y.astype(np.int32)


def batches(x, y, size, seed=0):
    rng = np.random.default_rng(seed)
    n = len(x)
    while True:
        order = rng.permutation(n)
        for s in range(0, n - size + 1, size):
            take = order[s:s + size]
            yield x[take], y[take]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--lr", type=float, default=0.02)
    args = ap.parse_args()

    params = init_params(jax.random.key(0))
    velocity = jax.tree.map(jnp.zeros_like, params)
    x_train, y_train = make_images(4096, seed=1)
    x_test, y_test = make_images(128, seed=2)
    stream = batches(x_train, y_train, args.batch)

    for step in range(1, args.steps + 1):
        x, y = next(stream)
        params, velocity, loss = train_step(params, velocity, x, y, args.lr)
        if step % 50 == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)
        if step % 100 == 0:
            print(f"step {step} test accuracy {accuracy(params, x_test, y_test):.3f}")


if __name__ == "__main__":
    main()
