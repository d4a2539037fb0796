"""Find the step, call, range and layer that recorded work belongs to."""
