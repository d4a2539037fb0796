"""The networks and their loops as PyTorch users write them."""
