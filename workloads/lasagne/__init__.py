"""Lasagne on Theano: the networks as stacks of layers, and their loops.

Lasagne's only published release, 0.1 of 2015, imports a module that Theano renamed in 0.9. Its users put the new module in the
old one's place, and so is done here, before Lasagne is imported.
"""

import sys
import types

import theano.tensor.signal
from theano.tensor.signal import pool

_OLD = "theano.tensor.signal.downsample"
if _OLD not in sys.modules:
    sys.modules[_OLD] = theano.tensor.signal.downsample = types.ModuleType(_OLD)
    theano.tensor.signal.downsample.max_pool_2d = pool.pool_2d
