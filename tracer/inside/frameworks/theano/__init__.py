"""Theano: what is hooked of it, for the libraries on top of it."""
