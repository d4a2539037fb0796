"""The networks as a user of CNTK writes them, with cntk.layers and C.Trainer."""
