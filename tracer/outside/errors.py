"""The few errors of the capturing side: each message is one line that names the file or place and the remedy."""


class KernelscopeError(Exception):
    """Base of all; the command line prints the message and exits with `exit_code`."""

    exit_code = 1


class UsageError(KernelscopeError):
    """The command was given something that it does not know."""

    exit_code = 2


class InputError(KernelscopeError):
    """A file or folder cannot be used."""

    exit_code = 3


class ChildError(KernelscopeError):
    """A framework's interpreter is missing, lacks the framework, or its process failed."""

    exit_code = 4
