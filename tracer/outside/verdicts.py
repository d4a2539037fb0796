"""Verdicts on findings, kept from all of a user's trials, one per line: $XDG_STATE_HOME/kernelscope/verdicts.jsonl.

Without that variable the folder is ~/.local/state/kernelscope. Its content stays on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def file() -> Path:
    """Return the path of the file."""
    named = os.environ.get("XDG_STATE_HOME", "")
    state = Path(named) if os.path.isabs(named) else Path("~/.local/state").expanduser()
    return state / "kernelscope" / "verdicts.jsonl"


def keep(lines: Sequence[str]) -> None:
    """Add lines. If they cannot be written, they are lost without an error."""
    try:
        file().parent.mkdir(parents=True, exist_ok=True)
        with file().open("a", encoding="utf8") as out:
            out.write("".join(line + "\n" for line in lines))
    except OSError:
        pass


def read() -> str:
    """Return all lines; empty if there are none."""
    return file().read_text(encoding="utf8") if file().is_file() else ""
