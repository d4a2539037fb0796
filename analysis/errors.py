"""What analyses raise for input that they cannot use: one line that names the file, the place and the remedy."""


class EvidenceError(Exception):
    """A file or table cannot be read as what it should be."""
