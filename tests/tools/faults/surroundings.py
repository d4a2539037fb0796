"""Try commands where memory, processors, folders or the clock are not as usual (Linux, as root): they work, or say why in a line.

    python tests/tools/faults/surroundings.py [--only NAME] [--in SURROUNDING]

Limits are those of containers: control groups for memory and processors, mounts of their own for folders. A command goes wrong
when it ends by a signal or a traceback, or fails without a line of ours. Exits with 1 where one did.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from killed import COMMANDS, KERNELSCOPE, Command, filled, remove, workplace

CGROUPS = Path("/sys/fs/cgroup")
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
CORES = """import os
os.cpu_count = lambda: 128
os.sched_getaffinity = lambda pid: set(range(128))
"""
Around = Callable[[Path], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def nothing(scratch: Path) -> Iterator[None]:
    """Nothing goes on beside the command."""
    yield


@contextlib.contextmanager
def jumping(scratch: Path) -> Iterator[None]:
    """The clock is set back by an hour, and forward by two, every half second in turns."""
    file, over = scratch / "offset", threading.Event()

    def jump() -> None:
        offsets = ("-1h", "+1h")
        while not over.wait(0.5):
            file.write_text(offsets[int(time.monotonic() * 2) % 2])

    file.write_text("+0")
    thread = threading.Thread(target=jump)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass(frozen=True)
class Surrounding:
    """Where a command is run. before: words of its shell; variables: with {scratch}; around: what goes on meanwhile."""

    name: str
    before: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    around: Around = nothing


def _read_only(folder: str) -> str:
    return f"mount -t tmpfs -o ro,mode=555 none {folder}"


def _group(controller: str, **limits: str) -> str:
    """Return what puts the shell into a control group (version 1) of its own."""
    own = CGROUPS / controller / f"kernelscope-{os.getpid()}"
    values = "; ".join(f"echo {value} >{own}/{name.replace('__', '.')}" for name, value in limits.items())
    return f"mkdir -p {own}; {values}; echo $$ >{own}/cgroup.procs"


SURROUNDINGS = (
    Surrounding("512 MB of memory", _group("memory", memory__limit_in_bytes="512M")),
    Surrounding("half a processor", _group("cpu", cpu__cfs_period_us="100000", cpu__cfs_quota_us="50000")),
    Surrounding("one processor", "taskset -p 1 $$ >/dev/null"),
    Surrounding("128 processors, as Python is told", variables={"PYTHONPATH": "{scratch}"}),
    Surrounding("no /dev/shm", _read_only("/dev/shm")),
    Surrounding("nothing can be written into /tmp", _read_only("/tmp"), {"TMPDIR": "/tmp"}),
    Surrounding("a home that cannot be written", "mount --bind -o ro $HOME $HOME; mount -o remount,bind,ro $HOME"),
    Surrounding("64 descriptors", "ulimit -n 64"),
    Surrounding("LANG=C", variables={"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    Surrounding("a clock that jumps", "", {
        "LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": "{scratch}/offset", "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }, jumping),
)  # fmt: skip


def tried(command: Command, where: Surrounding, out: Path, scratch: Path) -> str:
    """Run a command there; return what became of it, "wrong: ..." where that is not what it should be."""
    (scratch / "sitecustomize.py").write_text(CORES)
    script = f'set -e; {where.before}; exec "$@"' if where.before else 'exec "$@"'
    variables = {name: value.format(scratch=scratch) for name, value in where.variables.items()}
    words = ["unshare", "--mount", "sh", "-c", script, "sh", KERNELSCOPE, *filled(command.words, out)]
    with where.around(scratch):
        done = subprocess.run(
            words,
            env={**os.environ, "TMPDIR": str(scratch), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    remove(out)
    said = [line for line in done.stderr.splitlines() if "error:" in line]
    if done.returncode < 0 or done.returncode > 128 or "Traceback" in done.stderr:
        return f"wrong: status {done.returncode}: {done.stderr.strip()[-300:]}"
    if done.returncode:
        return (
            f"said: {said[-1][:200]}" if said else f"wrong: status {done.returncode} and no error: {done.stderr.strip()[-200:]}"
        )
    return "works"


def main() -> int:
    """Return 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a command (repeatable; default: all)")
    parser.add_argument("--in", dest="places", action="append", help="a surrounding (repeatable; default: all)")
    arguments = parser.parse_args()
    wrong = 0
    tempfile.tempdir = "/var/tmp"  # what commands write is not in the folders that are changed
    for where in SURROUNDINGS:
        if where.name not in (arguments.places or [where.name]):
            continue
        if "LD_PRELOAD" in where.variables and not Path(FAKETIME).is_file():
            print(f"{where.name}: not tried: libfaketime is not installed")
            continue
        for command in COMMANDS:
            if command.name in (arguments.only or [command.name]):
                with workplace() as (out, scratch):
                    result = tried(command, where, out, scratch)
                wrong += result.startswith("wrong")
                print(f"{where.name}: {command.name}: {result}", flush=True)
    for group in CGROUPS.glob(f"*/kernelscope-{os.getpid()}"):
        group.rmdir()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
