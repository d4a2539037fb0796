"""Commands called in the test's own process: starting an interpreter takes longer than most of them do."""

import contextlib
import io
from typing import NamedTuple

from kernelscope.cli.main import main


class Done(NamedTuple):
    """How a command ended, as subprocess.CompletedProcess has it."""

    returncode: int
    stdout: str
    stderr: str


def called(*arguments):
    """Call `kernelscope` with these arguments; an exception that would be a traceback is raised."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:  # of argparse
            status = end.code
    texts = [stream.buffer.getvalue().decode("utf8") for stream in (out, err)]
    return Done(status or 0, *texts)
