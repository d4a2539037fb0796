"""Makes the named changes, then does what a program does that each of them answers, and prints what became of it."""

import json
import sys

import jax
import jax.numpy as jnp

from kernelscope.tracer.inside import changes
from kernelscope.tracer.inside.profiling.patches import Patches

met = []
changes.apply("jax", sys.argv[1:], Patches(), lambda name, what: met.append([name.partition(":")[2], what]))

traces = []


def loss(weights, x):
    traces.append(isinstance(x, jax.core.Tracer))
    return jnp.mean((x @ weights) ** 2)


@jax.jit
def step(weights, x):
    value, gradient = jax.value_and_grad(loss)(weights, x)
    return weights - 0.1 * gradient, value


weights, x = jnp.ones((4, 3)), jnp.ones((2, 4))
plain = [float(jax.value_and_grad(loss)(weights, x)[0]) for _ in range(2)]
eager = sum(not traced for traced in traces)
for _ in range(3):
    kept = weights
    weights, value = step(weights, x)
jax.config.update("jax_disable_jit", True)
with jax.disable_jit():
    off = bool(jax.config.jax_disable_jit)
last = float(value)
jax.config.update("jax_enable_x64", True)
print(
    json.dumps(
        {
            "met": met,
            "loss": plain,
            "last": last,
            "double": bool(jax.config.jax_enable_x64),
            "gradients in Python": eager,
            "written over": kept.is_deleted(),
            "jit off": off,
            "name": step.__name__,
            "lowered": type(step.lower(weights, x)).__name__,
        }
    )
)
