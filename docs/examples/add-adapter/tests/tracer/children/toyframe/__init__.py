"""A framework in plain Python: a Net of layers, and a function that trains it by one step."""

import math
import random

__version__ = "1.2"


class Layer:
    """What a Net is made of."""

    def __init__(self, name):
        self.name = name

    def shapes(self):
        return []

    def update(self, rate):
        """Go down the gradients."""


class Dense(Layer):
    def __init__(self, name, inputs, outputs):
        super().__init__(name)
        draw = random.Random(name)
        self.weights = [[draw.gauss(0, 0.3) for _ in range(inputs)] for _ in range(outputs)]

    def shapes(self):
        return [(len(self.weights), len(self.weights[0]))]

    def __call__(self, batch):
        self.batch = batch
        return [[sum(a * b for a, b in zip(row, weights, strict=True)) for weights in self.weights] for row in batch]

    def backward(self, gradients):
        inputs = range(len(self.weights[0]))
        self.gradients = [
            [sum(row[output] * given[place] for row, given in zip(gradients, self.batch, strict=True)) for place in inputs]
            for output in range(len(self.weights))
        ]
        return [
            [sum(g * weights[place] for g, weights in zip(row, self.weights, strict=True)) for place in inputs]
            for row in gradients
        ]

    def update(self, rate):
        self.weights = [
            [weight - rate * gradient for weight, gradient in zip(*rows, strict=True)]
            for rows in zip(self.weights, self.gradients, strict=True)
        ]


class Tanh(Layer):
    def __call__(self, batch):
        self.outputs = [[math.tanh(value) for value in row] for row in batch]
        return self.outputs

    def backward(self, gradients):
        return [[g * (1 - out * out) for g, out in zip(*rows, strict=True)] for rows in zip(gradients, self.outputs, strict=True)]


class Net:
    def __init__(self, *layers):
        self.layers = layers

    def __call__(self, batch):
        for layer in self.layers:
            batch = layer(batch)
        return batch

    def backward(self, gradients):
        for layer in reversed(self.layers):
            gradients = layer.backward(gradients)

    def update(self, rate):
        for layer in self.layers:
            layer.update(rate)


def train_step(net, batch, targets, rate=0.01):
    outputs = net(batch)
    differences = [[out - target for out, target in zip(*rows, strict=True)] for rows in zip(outputs, targets, strict=True)]
    net.backward(differences)
    net.update(rate)
    return sum(value * value for row in differences for value in row) / len(batch)
