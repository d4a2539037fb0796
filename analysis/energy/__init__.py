"""Energy of a step: how much (summary), and of which layers and kinds of kernels (layers)."""
