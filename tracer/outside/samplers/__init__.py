"""What is sampled from outside while a child runs: CPUs and memory always, the GPU if NVML answers."""
