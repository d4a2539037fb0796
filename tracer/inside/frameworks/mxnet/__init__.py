"""MXNet: hooks for our workloads and for scripts."""
