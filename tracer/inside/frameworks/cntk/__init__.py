"""CNTK: hooks for our workloads and for scripts."""
