"""A wide perceptron whose whole step is one compiled function that gives its arguments' memory away."""
import sys
from functools import partial

import jax
import jax.numpy as jnp

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
key = jax.random.key(0)
params = [jax.random.normal(key, (1536, width)) * 0.02 for width in (1536, 1536, 512)]
x, y = jax.random.normal(key, (512, 1536)), jax.random.randint(key, (512,), 0, 512)


def loss_fn(params, x, y):
    for weights in params[:-1]:
        x = jax.nn.relu(x @ weights)
    scores = jax.nn.log_softmax(x @ params[-1])
    return -jnp.take_along_axis(scores, y[:, None], axis=1).mean()


@partial(jax.jit, donate_argnums=0)
def train_step(params, x, y):
    loss, gradients = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), loss


for step in range(STEPS):
    params, loss = train_step(params, x, y)
print(float(loss))
