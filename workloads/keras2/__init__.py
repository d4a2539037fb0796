"""Keras 2: one program for its backends Theano, CNTK and MXNet."""
