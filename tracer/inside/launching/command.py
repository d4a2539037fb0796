"""The command's process. We leave its arguments, terminal, working folder, signals and exit status unchanged.

Its environment has two additional variables: PYTHONPATH, through which every Python in it runs
`profiling/injected/sitecustomize.py` first, and KERNELSCOPE_PROFILE, the file that says what to record.
"""

import contextlib
import glob
import os
import signal
import subprocess
from typing import Mapping, Optional, Sequence, Tuple

from kernelscope.tracer.inside import limits
from kernelscope.tracer.inside.launching import signals
from kernelscope.tracer.inside.launching.errors import NoSuchCommand
from kernelscope.tracer.inside.profiling import printed

VARIABLE = "KERNELSCOPE_PROFILE"
INJECTED = os.path.join("kernelscope", "tracer", "inside", "profiling", "injected")  # in a staged folder
_TAKING_VALUES = ("-W", "-X", "-Q", "--check-hash-based-pycs")  # options of python that take a value


# Console scripts and modules that start a Python program, which follows their options
_LAUNCHERS = (
    "torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "accelerate.commands.launch", "deepspeed",
    "horovodrun",
)  # fmt: skip


def script_name(command: Sequence[str]) -> Optional[str]:
    """Return what the command runs: the script or module that a Python or a launcher runs, else the command itself."""
    first = os.path.basename(command[0])
    name, rest = _behind_python(list(command[1:])) if _is_python(first) else (first, list(command[1:]))
    return _launched(rest) or name if name in _LAUNCHERS else name or first


def label(command: Sequence[str]) -> Optional[str]:
    """Return the default label of a run of the command: its name without the extension of a script."""
    name = script_name(command)
    return name[:-3] if name is not None and name.endswith((".py", ".sh")) else name


def _is_python(name: str) -> bool:
    return name.startswith(("python", "pypy"))


def _behind_python(arguments: Sequence[str]) -> Tuple[Optional[str], Sequence[str]]:
    """Return what an interpreter with these arguments runs, None if nothing, and the arguments of that."""
    rest = iter(arguments)
    for part in rest:
        if part == "-m":
            return next(rest, None), list(rest)
        if part in _TAKING_VALUES:
            next(rest, None)
        elif part == "-c":
            return "-c", list(rest)
        elif not part.startswith("-"):
            return os.path.basename(part), list(rest)
    return None, []


def _launched(arguments: Sequence[str]) -> Optional[str]:
    """Return what a launcher with these arguments starts; None if unclear, as we do not know which options take values."""
    for place, part in enumerate(arguments):
        behind = arguments[place + 1 :]
        if part in ("-m", "--module"):
            return next((name for name in behind if not name.startswith("-")), None)
        if part.endswith(".py"):
            return os.path.basename(part)
        if _is_python(os.path.basename(part)):
            return script_name(arguments[place:])
    return None


def run(command: Sequence[str], spec: str, injected: str, more: Mapping[str, str]) -> int:
    """Run the command to its end, forwarding signals; return its exit status as a shell reports it.

    The command gets SIGTERM when we are killed: nobody would read its recording. spec: path of the specification. injected: the
    folder of our sitecustomize. more: additional environment variables. Raises NoSuchCommand.
    """
    variables = dict(os.environ, **more)
    folders = variables.get("PYTHONPATH")
    if folders and VARIABLE in variables:  # within a program that is itself profiled: only one of the two records
        folders = os.pathsep.join(one for one in folders.split(os.pathsep) if not one.endswith(INJECTED))
    variables[VARIABLE] = os.path.realpath(spec)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (injected, folders)))
    try:
        process = subprocess.Popen(
            list(command), env=variables, close_fds=False, preexec_fn=limits.ending_with_us(signal.SIGTERM)
        )
    except OSError as error:
        raise NoSuchCommand("%s: cannot be run: %s" % (command[0], error.strerror or error)) from error
    with signals.to(process):
        status = process.wait()
    return status if status >= 0 else 128 - status


def forward_rest(folder: str) -> None:
    """Print the script's output that its dead process could no longer forward."""
    for spool in glob.glob(os.path.join(glob.escape(folder), "*", "*", printed.SPOOL_FILE)):
        done = os.path.join(os.path.dirname(spool), printed.LEFT)
        start, own = 0, []
        if os.path.exists(done):
            with open(done, encoding="ascii") as file:
                first, *own = file.read().split() or ["0"]
                start = int(first)
        with open(spool, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            for _, content, after in printed.chunks(file.fileno(), start, size, own):
                printed.write_all(1, content)
                start = after
            printed.write_all(1, os.pread(file.fileno(), size - start, start))
        os.unlink(spool)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(done)
