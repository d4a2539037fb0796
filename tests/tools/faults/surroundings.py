"""Try commands where memory, processors or folders are not as usual (Linux, as root): they work, or say why in a line.

    python tests/tools/faults/surroundings.py [--only NAME] [--in SURROUNDING]

Limits are those of containers: control groups for memory and processors, mounts of their own for folders. A command goes wrong
when it ends by a signal or a traceback, fails without a line of ours, or leaves what cannot be read. Exits with 1 where one did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from killed import COMMANDS, KERNELSCOPE, Command, filled, remove, unreadable, workplace

CGROUPS = Path("/sys/fs/cgroup")
CORES = """import os
os.cpu_count = lambda: 128
os.sched_getaffinity = lambda pid: set(range(128))
"""


@dataclass(frozen=True)
class Surrounding:
    """Where a command is run. before: words of its shell; variables: with {scratch}, a folder of its own."""

    name: str
    before: str = ""
    variables: dict[str, str] = field(default_factory=dict)


def _read_only(folder: str) -> str:
    return f"mount -t tmpfs -o ro,mode=555 none {folder}"


def _group(controller: str, **limits: str) -> str:
    """Return what puts the shell into a control group (version 1) of its own."""
    own = CGROUPS / controller / f"kernelscope-{os.getpid()}"
    values = "; ".join(f"echo {value} >{own}/{name.replace('__', '.')}" for name, value in limits.items())
    return f"mkdir -p {own}; {values}; echo $$ >{own}/cgroup.procs"


def _loaded(name: str) -> str:
    """Return what makes the command load a library of this folder, compiled, before libc."""
    library = f"$TMPDIR/{name}.so"
    return f"cc -shared -fPIC -o {library} {Path(__file__).with_name(name + '.c')}; export LD_PRELOAD={library}"


def _jump(seconds: int, after: int) -> str:
    """Return what makes the wall clock jump by so many seconds, some seconds after the command's start."""
    moment = f"$(python3 -c 'import time; print(int(time.monotonic()) + {after})')"
    return f"export JUMP_BY={seconds} JUMP_AT={moment}; {_loaded('jump')}"


SURROUNDINGS = (
    Surrounding("512 MB of memory", _group("memory", memory__limit_in_bytes="512M")),
    Surrounding("half a processor", _group("cpu", cpu__cfs_period_us="100000", cpu__cfs_quota_us="50000")),
    Surrounding("one processor", "taskset -p 1 $$ >/dev/null"),
    Surrounding("128 processors, as Python is told", variables={"PYTHONPATH": "{scratch}"}),
    Surrounding("no /dev/shm", _read_only("/dev/shm")),
    Surrounding("nothing can be written into /tmp", _read_only("/tmp"), {"TMPDIR": "/tmp"}),
    Surrounding("a home that cannot be written", "mount --bind -o ro $HOME $HOME; mount -o remount,bind,ro $HOME"),
    Surrounding("64 descriptors", "ulimit -n 64"),
    Surrounding("a clock that jumps an hour ahead", _jump(3600, 2)),
    Surrounding("a clock that jumps an hour back", _jump(-3600, 2)),
    Surrounding("every other write takes half", _loaded("short")),
    Surrounding("LANG=C", variables={"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
)  # fmt: skip


def tried(command: Command, where: Surrounding, out: Path, scratch: Path) -> str:
    """Run a command there; return what became of it, "wrong: ..." where that is not what it should be."""
    (scratch / "sitecustomize.py").write_text(CORES)
    script = f'set -e; {where.before}; exec "$@"' if where.before else 'exec "$@"'
    variables = {name: value.format(scratch=scratch) for name, value in where.variables.items()}
    words = ["unshare", "--mount", "sh", "-c", script, "sh", KERNELSCOPE, *filled(command.words, out)]
    done = subprocess.run(
        words, env={**os.environ, "TMPDIR": str(scratch), **variables}, capture_output=True, text=True, check=False, timeout=600
    )
    left = unreadable(command, out, scratch)
    remove(out)
    said = [line for line in done.stderr.splitlines() if "error:" in line]
    if done.returncode < 0 or done.returncode > 128 or "Traceback" in done.stderr:
        return f"wrong: status {done.returncode}: {done.stderr.strip()[-300:]}"
    if done.returncode:
        return (
            f"said: {said[-1][:200]}" if said else f"wrong: status {done.returncode} and no error: {done.stderr.strip()[-200:]}"
        )
    return f"wrong: {left[0]}" if left else "works"


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
