"""What is sampled from outside while a child runs: processors and memory always, the GPU where NVML answers."""
