"""Read what commands leave that are killed at any call that changes a file, and in the middle of any that writes.

    python tests/tools/faults/states.py [--only NAME ...] [--tries 5] [--most N] [--seed 1]

A library that is loaded into a command (states.c) copies the folder into which it writes before each such call of it and of the
processes that it starts. Each different copy is what a kill at that call would leave. It is read by the command that reads such
results: that has an answer, or refuses it in one line, without a traceback. Of commands whose result nothing reads, each file
that has its name is as it is in the end. Some copies are where the command is tried again: that ends well. Exits with 1 where
that does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from killed import COMMANDS, KERNELSCOPE, Command, commands, digest, filled, fine, prepare, run, workplace

from kernelscope.cli.main import main as kernelscope


def states(command: Command, out: Path, scratch: Path, library: Path) -> list[Path]:
    """Run a command; return the different copies of its folder in the order in which they were made."""
    copies = scratch.with_name("copies")
    copies.mkdir()
    prepare(command, out, scratch)
    variables = {"STATES_OF": str(out.parent), "STATES_INTO": str(copies), "LD_PRELOAD": str(library), "TMPDIR": str(scratch)}
    line = [KERNELSCOPE, *filled(command.words, out)]
    subprocess.run(line, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    different = {digest(path): path for path in sorted(copies.iterdir(), reverse=True)}
    return sorted(different.values())


@contextlib.contextmanager
def placed(state: Path, out: Path) -> Iterator[None]:
    """Let the folder of the result be a copy, as it was."""
    shutil.rmtree(out.parent)
    shutil.copytree(state, out.parent, symlinks=True)
    yield
    shutil.rmtree(out.parent)
    out.parent.mkdir()


def read(words: list[str], allowed: tuple[int, ...]) -> str | None:
    """Run a command that reads, in a process of its own; return what is wrong with how it ends."""
    into, outof = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(into)
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                status = kernelscope(words)
        except SystemExit as error:
            status = int(error.code or 0)
        except BaseException:
            status = 99
            said.write(traceback.format_exc())
        os.write(outof, said.getvalue()[-300:].encode(errors="replace"))
        os._exit(status)
    os.close(outof)
    with os.fdopen(into, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ends_well = status in allowed and "Traceback" not in text and (status == 0 or text.count("error:") == 1)
    return None if ends_well else f"exit status {status}: {text}"


def unlike(state: Path, end: dict[str, bytes]) -> list[str]:
    """Return which files have the name of a result and are not as it is in the end."""
    return [name for name, content in end.items() if (path := state / name).is_file() and path.read_bytes() != content]


def wrong_of(command: Command, several: list[tuple[int, Path]], end: dict[str, bytes], root: Path) -> list[str]:
    """Return what is wrong with numbered states, each placed in a folder of this process alone."""
    out = root / "out" / "result"
    out.parent.mkdir(parents=True)
    wrong = []
    for place, (number, state) in enumerate(several, 1):
        with placed(state, out):
            if command.reads is None:
                wrong += [f"{command.name}, {number}: {name} is not whole" for name in unlike(state, end)]
            elif any(out.parent.glob(out.name + "*")) and (said := read(filled(command.reads, out), fine(command))):
                wrong.append(f"{command.name}, {number}: {said}")
        if place % 100 == 0:  # those that record leave thousands
            print(f"{command.name}: {place} of {len(several)}, {len(wrong)} things wrong so far", flush=True)
    return wrong


def tried(command: Command, library: Path, tries: int, most: int, chance: random.Random) -> list[str]:
    """Return what is wrong with what a command leaves, at most so many states of it."""
    with workplace() as (out, scratch):
        found = states(command, out, scratch, library)
        found = found if len(found) <= most else sorted(chance.sample(found, most))
        end = {str(path.relative_to(out.parent)): path.read_bytes() for path in out.parent.rglob("*") if path.is_file()}
        numbered, workers = list(enumerate(found, 1)), len(os.sched_getaffinity(0))
        with ProcessPoolExecutor(workers) as pool:
            parts = [
                pool.submit(wrong_of, command, numbered[place::workers], end, scratch / f"reading-{place}")
                for place in range(workers)
            ]
            wrong = [line for part in parts for line in part.result()]
        again = chance.sample(numbered, min(tries, len(found)))
        for number, state in again:
            with placed(state, out):
                if (done := run([*filled(command.words, out), *command.again], scratch, 600.0)).returncode:
                    wrong.append(f"{command.name}, {number}: the next try fails: {done.stderr.strip().splitlines()[-1:]}")
        print(f"{command.name}: {len(found)} different states, {len(again)} tries again, {len(wrong)} things wrong", flush=True)
    return wrong


def main() -> int:
    """Return 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a command (repeatable; default: all)")
    parser.add_argument("--tries", type=int, default=5, help="states of each command after which it is tried again (default: 5)")
    parser.add_argument("--most", type=int, default=10**6, help="states of each command that are read (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    wrong: list[str] = []
    with workplace() as (out, _):
        library = out.with_name("states.so")
        source = Path(__file__).with_name("states.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        for command in commands(arguments.only or [one.name for one in COMMANDS]):
            wrong += tried(command, library, arguments.tries, arguments.most, random.Random(arguments.seed))
    print("\n".join(wrong[:60]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
