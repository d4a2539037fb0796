"""Chainer: the networks as chains of links and functions, and their loops."""
