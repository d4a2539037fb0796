"""oneDNN's C library called directly: what a network costs without a framework."""
