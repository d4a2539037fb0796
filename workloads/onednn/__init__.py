"""The C library oneDNN, called directly: what a network costs without a framework."""
