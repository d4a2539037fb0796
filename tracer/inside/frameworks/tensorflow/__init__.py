"""Hooks into TensorFlow 2, for our workloads and for scripts."""
