"""NVIDIA's profilers: finding what is installed and what it can do."""
