"""Lasagne on Theano: the networks as stacks of layers, and their training and inference loops.

Lasagne's only published release, 0.1 of 2015, imports a module that Theano renamed in 0.9. As its users do, this package puts
the new module in the old one's place, before Lasagne is imported.
"""

import sys
import types

import theano.tensor.signal
from theano.tensor.signal import pool

_OLD = "theano.tensor.signal.downsample"
if _OLD not in sys.modules:
    sys.modules[_OLD] = theano.tensor.signal.downsample = types.ModuleType(_OLD)
    theano.tensor.signal.downsample.max_pool_2d = pool.pool_2d
