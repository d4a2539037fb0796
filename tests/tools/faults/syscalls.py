"""Let single system calls of commands fail (no space, an error of the disk) or kill them, and look at what is said and left.

    python tests/tools/faults/syscalls.py [--times 20] [--seed 1] [--only NAME] [--error ENOSPC|EIO|EINTR|KILL ...] [--kinds]

strace counts the calls with which a command writes, and then lets one of them fail, a random one each time, or each one in turn
where there are no more than --times. With --kinds it is one of each kind: of each call on each file, where names that differ in
digits, and the copies of our agent, are one. After that the command either succeeded, or said in a line of ours what failed,
without a traceback of ours, unless it was killed in the call; what it had read is as it was; what it left can be read or is
refused in one line; and the same command, told to replace that, ends well. Exits with 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from killed import DATA, KERNELSCOPE, Command, commands, digest, filled, prepare, remove, run, unreadable, workplace

CALLS = ("write", "pwrite64", "writev", "rename", "renameat2", "mkdir", "openat", "ftruncate", "fsync")
ERRORS = ("ENOSPC", "EIO")
KILL = "KILL"  # in place of an error: the command is killed as the call begins
# A frame of ours: a profiled program whose own call failed has a traceback, too
OURS = re.compile(r'File "(?!.*/(?:tests|site-packages)/)[^"]*/(?:analysis|cli|nsys_wrappers|reports|tracer|workloads)/')
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
_PATH = re.compile(r'(?<!AT_FDCWD)<([^>]+)>|"([^"]+)"')  # of a descriptor, as -y prints it, or a name
_CHANCE = re.compile(r"\d+|(?<=\.tmp-)[^/]+(/.*)?|(?<=faults-)[^/]+")  # what differs from run to run; our copy of the agent
_CALL = re.compile(r"^\d+\s+(\w+)\((.*)")


def traced(words: Sequence[str], scratch: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a command under strace."""
    command = ["strace", "-f", "-qq", "--seccomp-bpf", *options, KERNELSCOPE, *words]
    variables = {**os.environ, "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=False)


def calls(words: Sequence[str], scratch: Path, log: Path) -> dict[tuple[str, int], str]:
    """Return the kind of each of CALLS that a command makes in its first process to write, by its name and its number from 1.

    A kind is the call and the file. Openings of files that are only read are numbered as strace does, and left out.
    """
    traced(words, scratch, "-y", "-e", f"trace={','.join(CALLS)}", "-o", str(log))
    lines = log.read_text(errors="replace").splitlines()
    first = lines[0].split()[0] if lines else ""
    numbers, kinds = Counter[str](), dict[tuple[str, int], str]()
    for line in lines:
        if line.startswith(f"{first} ") and (match := _CALL.match(line)):
            name = match[1]
            numbers[name] += 1
            if name != "openat" or _WRITES.search(line):
                path = _PATH.search(match[2])
                kinds[name, numbers[name]] = f"{name} {_CHANCE.sub('*', (path[1] or path[2]) if path else '')}"
    return kinds


def one_of_each(kinds: dict[tuple[str, int], str], chance: random.Random) -> list[tuple[str, int]]:
    """Return one call of each kind, by chance."""
    places: dict[str, list[tuple[str, int]]] = {}
    for place, kind in kinds.items():
        places.setdefault(kind, []).append(place)
    return [chance.choice(of) for of in places.values()]


def case(command: Command, out: Path, scratch: Path, call: str, number: int, error: str) -> list[str]:
    """Let one call fail; return what is wrong."""
    words = filled(command.words, out)
    prepare(command, out, scratch)
    how = "signal=KILL" if error == KILL else f"error={error}"
    done = traced(words, scratch, "-e", f"inject={call}:{how}:when={number}", "-o", os.devnull)
    wrong = []
    said = done.stderr.strip().splitlines()
    if error == KILL:
        wrong += unreadable(command, out, scratch)
    elif OURS.search(done.stderr) or done.returncode < 0:
        wrong.append(f"a traceback, or a signal (status {done.returncode}): {said[-1:]}")
    elif done.returncode and not any("error:" in line for line in said):
        wrong.append(f"it fails and does not say why (status {done.returncode}): {said[-1:]}")
    if command.reads is not None and done.returncode == 0:
        seen = run(filled(command.reads, out), scratch)
        if seen.returncode:
            wrong.append(f"it says that it succeeded, and what it wrote cannot be read: {seen.stderr.strip().splitlines()[-1:]}")
    again = run([*words, *command.again], scratch, 600.0)
    if again.returncode:
        wrong.append(f"the next try fails: {again.stderr.strip().splitlines()[-1:]}")
    remove(out)
    return [f"{command.name}, {error} in {call} {number}: {line}" for line in wrong]


def main() -> int:
    """Return 1 where something does not hold."""
    arguments = _arguments()
    if shutil.which("strace") is None:
        raise SystemExit("strace is not installed")
    chance, wrong = random.Random(arguments.seed), list[str]()
    before = digest(DATA)
    for command in commands(arguments.only):
        with workplace() as (out, scratch):
            log = scratch.with_name("log")
            kinds = calls(filled(command.words, out), scratch, log)
            remove(out)
            places = one_of_each(kinds, chance) if arguments.kinds else list(kinds)
            chosen = places if arguments.kinds else chance.sample(places, min(arguments.times, len(places)))
            found: list[str] = []
            for number, place in enumerate(chosen, 1):
                found += case(command, out, scratch, *place, error=chance.choice(arguments.error or ERRORS))
                if number % 10 == 0:  # those that record take an hour for a hundred
                    print(f"{command.name}: {number} of {len(chosen)}, {len(found)} things wrong so far", flush=True)
            print(f"{command.name}: {len(chosen)} of {len(kinds)} calls failed, {len(found)} things wrong", flush=True)
            wrong += found
    if digest(DATA) != before:
        wrong.append("what the commands read has changed")
    print("\n".join(wrong[:60]))
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="calls of each command that fail (default: 20)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="a command (repeatable; default: all but compare, which records)")
    parser.add_argument("--kinds", action="store_true", help="one call of each kind, however many there are")
    parser.add_argument("--error", action="append", help=f"what calls fail with (default: {' and '.join(ERRORS)})")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
