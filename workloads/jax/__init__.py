"""JAX with optax: networks as functions of a dictionary of parameters."""
