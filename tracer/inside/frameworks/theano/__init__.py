"""Theano: hooks for the libraries on top of it."""
