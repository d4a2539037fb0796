"""Profile somebody's own command: `tracer.inside.launching`, with our code staged into a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelscope.tracer.inside.launching.errors import FolderLost, NoSuchCommand
from kernelscope.tracer.inside.launching.launch import launch
from kernelscope.tracer.inside.launching.options import ProfileOptions
from kernelscope.tracer.inside.launching.outcome import Outcome
from kernelscope.tracer.outside import conditions, process_noise
from kernelscope.tracer.outside.errors import InputError, UsageError
from kernelscope.tracer.outside.staging import stage
from kernelscope.tracer.version import VERSION


def profile(command: Sequence[str], options: ProfileOptions, folder: Path, label: str | None, asked: list[str]) -> Outcome:
    """Run the command and write the run folder, which is there; raise UsageError where there is no such command.

    asked: our own command line.
    """
    about = {
        "kernelscope": VERSION,
        "machine": conditions.machine(),
        "noise": process_noise.known(),
        "command": asked,
        "label": label,
    }
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as temporary:
        try:
            outcome: Outcome = launch(command, options, folder, str(stage(Path(temporary))), about)
        except NoSuchCommand as error:
            raise UsageError(str(error)) from error
        except FolderLost as error:
            raise InputError(str(error)) from error
    return outcome
