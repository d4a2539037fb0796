"""What one side of a session runs: a framework, and the user's variations (the program, environment variables, a label)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from kernelscope.tracer.inside.plan import THREADS_VARIABLE
from kernelscope.tracer.outside.environments import Environment
from kernelscope.tracer.outside.errors import InputError, UsageError

LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")  # safe as a folder name, on a command line and in a table
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_BYTES = 1 << 20  # size limit of a program that a person wrote


@dataclass(frozen=True)
class ProgramFile:
    """A user's variation of a workload: Python code that defines a class Program, as it was when the command started."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        """Digest of the content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class Variant:
    """One side: `environment` is the framework's; `label` names the side and its folder.

    program: replaces the workload's own Program. variables: environment variables of this side's children, which override all
    others. changes: of its children (see tracer.inside.changes).
    """

    label: str
    environment: Environment
    program: ProgramFile | None = None
    variables: dict[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()

    def threads(self, asked: int) -> int:
        """Return this side's number of CPU threads: from its variables, else the number for all sides."""
        name = THREADS_VARIABLE.get(self.environment.framework, "OMP_NUM_THREADS")
        value = self.variables.get(name, "")
        return int(value) if value.isdecimal() and int(value) > 0 else asked


def program_file(path: str) -> ProgramFile:
    """Read a program; raise UsageError for a name that is not a Python file's, InputError for an unreadable file."""
    file = Path(path).expanduser()
    if file.suffix != ".py":
        raise UsageError(f"{path}: a program is a Python file; name one that ends with .py")
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: larger than {_MOST_BYTES} bytes; name a Python file that defines a class Program")
        return ProgramFile(file.name, file.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; name a Python file that defines a class Program") from error
