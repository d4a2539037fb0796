"""The command line: a file for each sub-command, and the only place that wires captures, analyses and reports together."""
