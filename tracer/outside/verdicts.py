"""Verdicts on findings, kept of all trials of a user, a line each: $XDG_STATE_HOME/kernelscope/verdicts.jsonl.

The folder is ~/.local/state/kernelscope where that variable names none. What it holds stays on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def file() -> Path:
    """Return where they are."""
    named = os.environ.get("XDG_STATE_HOME", "")
    state = Path(named) if os.path.isabs(named) else Path("~/.local/state").expanduser()
    return state / "kernelscope" / "verdicts.jsonl"


def keep(lines: Sequence[str]) -> None:
    """Add lines. Where they cannot be written they are lost, and nothing else."""
    try:
        file().parent.mkdir(parents=True, exist_ok=True)
        with file().open("a", encoding="utf8") as out:
            out.write("".join(line + "\n" for line in lines))
    except OSError:
        pass


def read() -> str:
    """Return all lines; empty where there are none."""
    return file().read_text(encoding="utf8") if file().is_file() else ""
