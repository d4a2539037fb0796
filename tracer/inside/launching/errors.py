"""What can go wrong: one line each that says what, where, and what would be right."""


class NoSuchCommand(Exception):
    """The command cannot be run."""
