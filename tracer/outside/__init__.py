"""Launching and watching: environments, passes, turns, samplers and the run folder."""
