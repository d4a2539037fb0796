"""Kill commands with SIGKILL at random moments, and look at what is left: nothing that was there is lost, and the next try works.

    python tests/tools/faults/killed.py [--times 100] [--seed 1] [--only NAME]

After each kill: what the command reads is as it was; what it writes is not there, or can be read, or is refused in one line; the
same command, told to replace what an earlier one left, ends well; and within 10 s no process of it runs. Temporary folders and
files of killed commands are gone after the next command that comes 5 s later. Exits with 1 where that does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from kernelscope.tracer.outside import environments

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"
KERNELSCOPE = str(Path(sys.executable).with_name("kernelscope"))
CAPTURE = DATA / "gpu" / "h200" / "mlp.pt.trace.json.gz"
OTHER = DATA / "gpu" / "h200" / "mlp-again.pt.trace.json.gz"
FINE = (0, 2, 3)  # exit statuses of what reads a folder: an answer, or a refusal
PATIENCE_S = 10.0
SETTLED_S = 6.0  # see tracer.inside.temporary


@dataclass(frozen=True)
class Command:
    """What is killed.

    words: with {out} for what it writes; again: added for the next try; reads: a command that reads {out}; before: a command that
    writes {out} first: that can be read at any moment, until what is killed takes its place.
    """

    name: str
    words: tuple[str, ...]
    again: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    before: tuple[str, ...] = ()


SMALL = ("--steps", "3", "--warmup", "2", "--repeats", "1")
SCRIPT = ROOT / "tests" / "tracer" / "children" / "train_tiny.py"
SWEEP = Path(__file__).with_name("sweep.toml")
PROFILE = ("profile", "--force", "--steps", "5")
COMMANDS = (
    Command("import", ("import", str(CAPTURE), "-o", "{out}"), ("--force",), ("breakdown", "{out}")),
    Command(
        "import again", ("import", str(CAPTURE), "-o", "{out}", "--force"), (), ("breakdown", "{out}"),
        before=("import", str(OTHER), "-o", "{out}"),
    ),
    Command("report", ("report", str(CAPTURE), "-o", "{out}.html"), ("--force",)),
    Command("export", ("export", str(CAPTURE), "--format", "parquet", "-o", "{out}"), ("--force",)),
    Command("redact", ("redact", str(CAPTURE), "-o", "{out}.gz"), ("--force",), ("breakdown", "{out}.gz")),
    Command("ranks", ("ranks", *(str(DATA / "ranks" / f"work_rank{rank}.json.gz") for rank in (0, 1)), "-o", "{out}.html")),
    Command(
        "compare", ("compare", "lenet", "-f", "pytorch", *SMALL, "-o", "{out}"), ("--force",), ("breakdown", "{out}/pytorch")
    ),
    Command("run", ("run", "lenet", "-f", "pytorch", *SMALL, "-o", "{out}"), ("--force",), ("breakdown", "{out}")),
    Command("profile", (*PROFILE, "-o", "{out}", "--", "{pytorch}", str(SCRIPT)), (), ("breakdown", "{out}")),
    Command("sweep", ("sweep", str(SWEEP), "-o", "{out}"), (), ("report", "{out}", "-o", "{out}.html", "--force")),
)  # fmt: skip
RECORDING = ("compare", "run", "profile", "sweep")


def filled(words: Sequence[str], out: Path) -> list[str]:
    """Return the words of a command that writes to `out`."""
    framework = environments.find("pytorch")
    return [word.format(out=out, pytorch=framework.python if framework else "python3") for word in words]


def digest(folder: Path) -> str:
    """Return a digest of all that is in a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b"/"
        found.update(f"{path.relative_to(folder)} {len(content)} ".encode() + content)
    return found.hexdigest()


def run(words: Sequence[str], scratch: Path, limit: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    variables = {**os.environ, "TMPDIR": str(scratch)}
    return subprocess.run([KERNELSCOPE, *words], env=variables, capture_output=True, text=True, timeout=limit, check=False)


def prepare(command: Command, out: Path, scratch: Path) -> None:
    """Write what is there before the command that is killed."""
    if command.before:
        run(filled(command.before, out), scratch).check_returncode()


def fine(command: Command) -> tuple[int, ...]:
    """Return the exit statuses with which what a killed command leaves may be read."""
    return (0,) if command.before else FINE


def killed(words: Sequence[str], scratch: Path, after_s: float) -> tuple[int, set[int]]:
    """Start a command, kill it, and return its exit status and the processes that it had started."""
    variables = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen([KERNELSCOPE, *words], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children: set[int] = set()
    end = time.monotonic() + after_s
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(psutil.Error):
            children |= {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
    return process.wait(), children


def left_over(children: set[int]) -> list[str]:
    """Return which processes of a killed command still run when their time is over."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and any(map(psutil.pid_exists, children)):
        time.sleep(0.1)
    return [f"process {pid} still runs" for pid in children if psutil.pid_exists(pid)]


def unreadable(command: Command, out: Path, scratch: Path) -> list[str]:
    """Return what is wrong with what a killed command left: it can be read, or is refused."""
    if command.reads is None or not any(out.parent.glob(out.name + "*")):
        return []
    seen = run(filled(command.reads, out), scratch)
    if "Traceback" not in seen.stderr and seen.returncode in fine(command):
        return []
    return [f"what is left cannot be read: exit status {seen.returncode}: {seen.stderr[-200:]}"]


def case(command: Command, out: Path, scratch: Path, after_s: float) -> list[str]:
    """Kill once; return what is wrong."""
    words = filled(command.words, out)
    prepare(command, out, scratch)
    status, children = killed(words, scratch, after_s)
    wrong = left_over(children) + unreadable(command, out, scratch)
    again = run([*words, *command.again], scratch, 600.0)
    if again.returncode:
        wrong.append(f"the next try fails: {again.stderr.strip().splitlines()[-1:]}")
    remove(out)
    return [f"{command.name}, killed after {after_s:.2f} s (status {status}): {line}" for line in wrong]


def remove(out: Path) -> None:
    """Remove what a command wrote."""
    for path in out.parent.glob(out.name + "*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def swept(command: Command, out: Path, scratch: Path) -> list[str]:
    """Run a command once more when what killed ones left has settled; return what is still left."""
    time.sleep(SETTLED_S)
    run(filled(command.words, out), scratch, 600.0)
    remove(out)
    left = [path.name for folder in (scratch, out.parent) for path in folder.iterdir()]
    return [f"{command.name}: {name} is left" for name in left if "kernelscope" in name]  # frameworks leave theirs


def commands(only: Sequence[str] | None) -> list[Command]:
    """Return the commands that are named, else all but those that record."""
    return [one for one in COMMANDS if (one.name in only if only else one.name not in RECORDING)]


@contextlib.contextmanager
def workplace() -> Iterator[tuple[Path, Path]]:
    """Yield the place of what a command writes, alone in its folder, and a folder for its temporary files."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        out, scratch = Path(name) / "out" / "result", Path(name) / "tmp"
        out.parent.mkdir()
        scratch.mkdir()
        yield out, scratch


def main() -> int:
    """Return 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="a command (repeatable; default: all but those that record)")
    arguments = parser.parse_args()
    chance, wrong = random.Random(arguments.seed), list[str]()
    before = digest(DATA)
    for command in commands(arguments.only):
        with workplace() as (out, scratch):
            began = time.monotonic()
            first = run(filled(command.words, out), scratch, 600.0)
            whole_s = time.monotonic() - began
            remove(out)
            if first.returncode:
                wrong.append(f"{command.name}: does not run at all: {first.stderr.strip().splitlines()[-1:]}")
                continue
            found: list[str] = []
            for number in range(1, arguments.times + 1):
                found += case(command, out, scratch, chance.uniform(0.05, whole_s * 1.05))
                if number % 10 == 0:  # those that record take an hour for a hundred
                    print(f"{command.name}: {number} of {arguments.times}, {len(found)} things wrong so far", flush=True)
            found += swept(command, out, scratch)
            print(f"{command.name}: killed {arguments.times} times within {whole_s:.1f} s, {len(found)} things wrong", flush=True)
            wrong += found
    if digest(DATA) != before:
        wrong.append("what the commands read has changed")
    print("\n".join(wrong[:60]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
