"""Why one side is slower than the other: an exact account of the difference, and its causes ranked."""
