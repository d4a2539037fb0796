"""MXNet: the networks in Gluon and their loops."""
