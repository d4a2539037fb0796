"""The modules that build the networks' Keras models, for TensorFlow and for every backend of Keras."""

from typing import Any

from kernelscope.workloads.program import builder

# network -> module with the function of its name that builds it
MODELS = {
    "lenet": "lenet",
    "mlp": "mlp",
    "cnn": "cnn",
    "lstm": "lstm",
    "cifarcnn": "cifarcnn",
    "gru": "gru",
    "fcn5": "fcn",
    "fcn8": "fcn",
    "lstm32": "lstms",
    "lstm64": "lstms",
    "alexnet": "alexnet",
    "alexnet_cifar10": "alexnet",
    "vgg16": "vgg16",
    "vgg16_cifar10": "vgg16",
    "googlenet": "googlenet",
    "googlenet_cifar10": "googlenet",
    "resnet50": "resnet50",
    "resnet50_cifar10": "resnet50",
    "gpt2": "transformers",
    "bert_base": "transformers",
    "vit_s16": "transformers",
}


def build(network: str, dropout: bool) -> Any:
    """Return the Keras model of the network of this name; dropout: whether its dropout layers drop anything in training."""
    return builder("tensorflow", MODELS[network], network)(dropout)
