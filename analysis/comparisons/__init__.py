"""Several runs side by side: comparisons, sweeps, gates, scaling."""
