"""The errors of the capturing side: each message is one line that names the file or place and the remedy."""


class KernelscopeError(Exception):
    """Base class; the command line prints the message and exits with `exit_code`."""

    exit_code = 1


class UsageError(KernelscopeError):
    """The command was given something unknown."""

    exit_code = 2


class InputError(KernelscopeError):
    """A file or folder cannot be used."""

    exit_code = 3


class ChildError(KernelscopeError):
    """A framework's interpreter is missing or lacks the framework, or its process failed.

    kind: "missing" (cannot be started or imported), "unsupported" (the framework's program cannot do what was requested),
    "timeout", "killed" (by a signal that was not ours), or "failed".
    """

    exit_code = 4

    def __init__(self, message: str, kind: str = "failed"):
        super().__init__(message)
        self.kind = kind
