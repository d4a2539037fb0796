"""Which module builds a network's model; the models are those of TensorFlow and of every backend of Keras."""

import importlib

# networks that share a module: it has a function of the network's name, where others have `build`
FAMILIES = {
    "fcn": ("fcn5", "fcn8"),
    "lstms": ("lstm32", "lstm64"),
    "alexnet": ("alexnet", "alexnet_cifar10"),
    "vgg16": ("vgg16", "vgg16_cifar10"),
    "googlenet": ("googlenet", "googlenet_cifar10"),
    "resnet50": ("resnet50", "resnet50_cifar10"),
    "transformers": ("gpt2", "bert_base", "vit_s16"),
}


def build(network, dropout):
    """Return the Keras model of the network of this name; dropout: whether its dropout layers drop anything in training."""
    family = next((module for module, networks in FAMILIES.items() if network in networks), None)
    module = importlib.import_module("kernelscope.workloads.tensorflow.%s" % (family or network))
    return getattr(module, network if family else "build")(dropout)
