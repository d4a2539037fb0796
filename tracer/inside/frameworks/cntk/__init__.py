"""CNTK: what is hooked of it, in our workloads and in scripts."""
