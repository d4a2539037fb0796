"""Hooks into JAX, for our workloads and for scripts."""
