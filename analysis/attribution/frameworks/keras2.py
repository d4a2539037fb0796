"""Keras 2: the evidence of its backend."""

from kernelscope.analysis.attribution.frameworks import cntk, mxnet, theano
from kernelscope.analysis.attribution.frameworks.keras import of_backends

read = of_backends("Keras 2", {"theano": theano.read, "cntk": cntk.read, "mxnet": mxnet.read})
