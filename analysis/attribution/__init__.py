"""Which step, call, range and layer recorded work belongs to."""
