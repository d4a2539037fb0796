"""Print the code that makes a shell complete kernelscope's commands and options: `eval` it in bash and zsh, source it in fish."""

from __future__ import annotations

import argparse
import sys

from argcomplete.shell_integration import shellcode

SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = {
    "bash": 'add to ~/.bashrc: eval "$(kernelscope completion bash)"',
    "zsh": 'add to ~/.zshrc, after compinit: eval "$(kernelscope completion zsh)"',
    "fish": "add to ~/.config/fish/config.fish: kernelscope completion fish | source",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the argument."""
    parser.add_argument("shell", choices=SHELLS, help="your shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the shell's code; on a terminal also say where it belongs."""
    print(shellcode(["kernelscope"], shell=arguments.shell))
    if sys.stdout.isatty():
        print(_EXAMPLES[arguments.shell], file=sys.stderr)
    return 0
