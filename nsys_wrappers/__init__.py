"""NVIDIA's profilers: find what is installed and what it can do."""
