"""MXNet: the networks in Gluon, and their training and inference loops."""
