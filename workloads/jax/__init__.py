"""JAX with optax: the networks as functions of a dictionary of parameters."""
