"""Plain numpy: the networks as lists of layers that compute their gradients by hand."""
