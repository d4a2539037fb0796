"""Chainer: the networks as chains of links and functions, and their training and inference loops."""
