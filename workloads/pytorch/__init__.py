"""PyTorch: the networks and their loops as its users write them."""
