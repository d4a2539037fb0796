"""The C libraries cuDNN and cuBLAS, called directly: what a network costs on a GPU without a framework."""
