"""Keras 3 on any backend: compiled models, trained batch by batch. The networks are those of workloads.tensorflow."""
