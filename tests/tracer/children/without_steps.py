"""Programs without steps: python without_steps.py FRAMEWORK REPEATS [lines | fails | model]."""

import sys


def pytorch(repeats):
    import torch

    values = torch.randn(800, 800)
    for _ in range(repeats):
        product = values @ values
        total = torch.relu(product).sum()
    return float(total)


def jax(repeats):
    import jax.numpy as numpy

    values = numpy.ones((800, 800))
    for _ in range(repeats):
        total = numpy.maximum(values @ values, 0).sum()
    return float(total)


def tensorflow(repeats):
    import tensorflow

    values = tensorflow.ones((800, 800))
    for _ in range(repeats):
        total = tensorflow.reduce_sum(tensorflow.nn.relu(values @ values))
    return float(total)


def mxnet(repeats):
    import mxnet

    values = mxnet.nd.ones((800, 800))
    for _ in range(repeats):
        total = mxnet.nd.relu(mxnet.nd.dot(values, values)).sum()
    return float(total.asscalar())


def model():
    """A single call of a model is one step."""
    import torch

    torch.nn.Linear(1000, 1000)(torch.ones(64, 1000))


def lines(count):
    """As many lines as are not kept."""
    total = 0
    for number in range(count):
        total += number
    return total


if __name__ == "__main__":
    framework, repeats, *more = sys.argv[1:]
    if more == ["model"]:
        model()
    else:
        globals()[framework](int(repeats))
    if more == ["lines"]:
        lines(250000)
    print("done", flush=True)
    if more == ["fails"]:
        raise SystemExit(3)
