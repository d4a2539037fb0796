"""The agent's `profile`: records a user's own command, with the agent's unpacked code in its interpreters."""

import argparse
import os
import sys
from typing import List

from kernelscope.tracer.inside.agent import machine
from kernelscope.tracer.inside.launching import options
from kernelscope.tracer.inside.launching.command import label
from kernelscope.tracer.inside.launching.launch import launch


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options to the command's parser."""
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="folder for the results (default: kernelscope-<name of the script>)"
    )
    options.add_arguments(parser)


def command(arguments: argparse.Namespace) -> List[str]:
    """Return the command to run; this interpreter runs -m and scripts that are not executable. Empty if there is none."""
    asked = options.command(arguments)
    ours = asked and (asked[0].endswith(".py") and not os.access(asked[0], os.X_OK) or asked[0] == "-m")
    return [sys.executable] + asked if ours else asked


def default_folder(asked: List[str]) -> str:
    """Return the folder for results without -o."""
    return "kernelscope-" + "".join(letter for letter in label(asked) or "" if letter.isalnum() or letter in "._-").strip("-")


def run(arguments: argparse.Namespace, asked: List[str], folder: str, root: str, version: str) -> int:
    """Run the command, report on stderr what was recorded, and return the exit status. Raises what `launch` raises."""
    about = {
        "kernelscope": version,
        "machine": machine.describe(),
        "command": ["agent.pyz"] + sys.argv[1:],
        "label": arguments.label,
    }
    outcome = launch(asked, options.asked(arguments), folder, root, about)
    for line in outcome.lines():
        sys.stderr.write(line + "\n")
    if outcome.seen is not None:
        sys.stderr.write(
            "run folder: %s; show it with `kernelscope breakdown %s` where kernelscope is installed\n" % (folder, folder)
        )
    return outcome.exit_status
