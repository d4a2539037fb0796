"""Cut the power: drop what commands wrote and did not hand to the disk, and see that what they promised is there.

    python tests/tools/faults/power.py [--only NAME]

strace lists what a command that succeeds writes, synchronises (fsync) and renames. Every file of its output whose last writing
was not followed by an fsync is emptied then, as a power cut may leave it. What reads the output must say the same as before.
Exits with 1 where it does not.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from killed import Command, commands, filled, remove, run, workplace
from syscalls import traced

WRITES = ("write", "pwrite64", "writev", "pwritev", "sendfile", "copy_file_range", "ftruncate")
_WRITE = re.compile(r"\b(?:(?:p?writev?(?:64)?|sendfile|ftruncate)\(|copy_file_range\(\d+<[^>]*>, \w+, )\d+<([^>]+)>")
_SYNC = re.compile(r"\b(?:fsync|fdatasync)\(\d+<([^>]+)>")
_RENAME = re.compile(r'\brename(?:at2?)?\((?:AT_FDCWD(?:<[^>]*>)?, )?"([^"]+)", (?:AT_FDCWD(?:<[^>]*>)?, )?"([^"]+)"')


def unsynchronised(log: str) -> set[str]:
    """Return the paths that were written and not handed to the disk afterwards, by the names that they have in the end."""
    found: set[str] = set()
    for line in log.splitlines():
        if match := _WRITE.search(line):
            found.add(match[1])
        elif match := _SYNC.search(line):
            found.discard(match[1])
        elif match := _RENAME.search(line):
            old, new = match.groups()
            moved = {path for path in found if path == old or path.startswith(f"{old}{os.sep}")}
            found = {path for path in found - moved if path != new} | {new + path[len(old) :] for path in moved}
    return found


def case(command: Command, out: Path, scratch: Path) -> list[str]:
    """Run a command, cut the power, and read what it wrote; return what is wrong."""
    assert command.reads is not None
    log = scratch.with_name("log")
    names = ",".join((*WRITES, "fsync", "fdatasync", "rename", "renameat", "renameat2"))
    done = traced(filled(command.words, out), scratch, "-y", "-e", f"trace={names}", "-o", str(log))
    if done.returncode:
        return [f"{command.name}: does not run at all: {done.stderr.strip().splitlines()[-1:]}"]
    before = run(filled(command.reads, out), scratch)
    lost = [
        Path(path)
        for path in unsynchronised(log.read_text(errors="replace"))
        if Path(path).is_file() and Path(path).is_relative_to(out.parent)
    ]
    for path in lost:
        path.write_bytes(b"")
    after = run(filled(command.reads, out), scratch)
    print(f"{command.name}: {len(lost)} files were not handed to the disk: {' '.join(sorted(path.name for path in lost))[:200]}")
    return (
        []
        if (before.returncode, before.stdout) == (after.returncode, after.stdout)
        else [f"{command.name}: {after.stderr.strip()[-200:]}"]
    )


def main() -> int:
    """Return 1 where something is lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a command (repeatable; default: those of killed.py that do not record)")
    wrong: list[str] = []
    for command in commands(parser.parse_args().only):
        if command.reads is not None:
            with workplace() as (out, scratch):
                wrong += case(command, out, scratch)
                remove(out)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
