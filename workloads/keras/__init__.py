"""Keras 3 on any of its backends: compiled models, trained batch by batch. The networks are those of workloads.tensorflow."""
