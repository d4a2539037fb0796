"""Records scripts as a user would: `kernelscope profile -o FOLDER -- python script.py`.

As they are, with some lines changed, and while other processes keep the machine busy.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from catalogue import ARGUMENTS, PACKAGES, PROGRAMS, Change

from kernelscope.tracer.outside import environments

LIMIT_S = 600
_KERNELSCOPE = Path(sys.executable).with_name("kernelscope")
_HOG = "while True: pass"


class Missing(Exception):
    """A program that cannot be run here; the text says why."""


def python(framework: str) -> tuple[Path, dict[str, str]]:
    """Return the interpreter for a framework's scripts and the variables that it needs, with the packages that they use."""
    base = environments.resolve(framework, None)
    packages = PACKAGES.get(framework, ())
    if not packages:
        return base.python, base.variables
    key = hashlib.sha256(repr((packages, str(base.python))).encode()).hexdigest()[:12]
    path = environments.home() / "scripts" / f"{framework}-{key}"
    own = path / "bin" / "python"
    if not (path / "ready").exists():
        _run([base.python, "-m", "venv", "--clear", "--without-pip", path])
        places = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        Path(_run([own, "-c", places]).strip(), "framework.pth").write_text(_run([base.python, "-c", places]))
        _run([own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        (path / "ready").touch()
    return own, base.variables


def _run(command: list[str | Path]) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise Missing(f"{' '.join(map(str, command[:4]))}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return done.stdout


def source(program: str, change: Change | None = None) -> str:
    """Return a program's text, with the lines of a change in place of its own."""
    text = (Path(__file__).parent / "programs" / f"{program}.py").read_text(encoding="utf8")
    for old, new in change.replace if change else ():
        if text.count(old) != 1:
            raise ValueError(f"{change and change.name}: {old!r} is {text.count(old)} times in {program}.py")
        text = text.replace(old, new)
    return text


def record(program: str, folder: Path, change: Change | None = None, busy: int = 0) -> None:
    """Record a program into a folder while so many processes burn the cores, unless a whole recording is there already."""
    if (folder / "run.json").is_file():
        return
    interpreter, variables = python(PROGRAMS[program])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, _hogs(busy):
        script = Path(place, f"{program}.py")
        script.write_text(source(program, change), encoding="utf8")
        command = [_KERNELSCOPE, "profile", "--quiet", "-o", folder.resolve(), "--", interpreter, script.name]
        command += ARGUMENTS.get(program, ())
        with open(f"{folder}.log", "w") as log:
            done = subprocess.run(
                [str(part) for part in command], cwd=place, env={**os.environ, **variables}, stdout=log,
                stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False,
            )  # fmt: skip
    if done.returncode:
        raise Missing(f"status {done.returncode}: see {folder}.log")


@contextlib.contextmanager
def _hogs(count: int) -> Iterator[None]:
    hogs = [subprocess.Popen([sys.executable, "-c", _HOG]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
