"""CNTK: the networks and their loops as its users write them, with cntk.layers and C.Trainer."""
