"""Find this machine's CPython interpreters: in PATH, and those of pyenv, uv, conda and the system.

A framework's environment needs a certain minor version (CNTK's last release runs only under 3.6), which is often installed but
is not the one that `python3` starts. Every candidate is run once, because its name proves nothing: pyenv's shims also exist for
versions that are not selected.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_TIMEOUT_S = 20.0

# Runs under any Python 3: the facts that decide whether an environment can be built from the interpreter.
_QUESTION = """
import json, platform, struct, sys, sysconfig
try:
    import ensurepip, venv
    lacks = None
except ImportError as error:
    lacks = getattr(error, "name", None) or str(error)
print(json.dumps({
    "implementation": platform.python_implementation(),
    "version": platform.python_version(),
    "minor": "%d.%d" % sys.version_info[:2],
    "in_environment": sys.prefix != sys.base_prefix,
    "base": getattr(sys, "_base_executable", None),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "bits": 8 * struct.calcsize("P"),
    "lacks": lacks,
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A CPython interpreter that runs.

    `version` is the full version ("3.11.7"), `minor` its first two parts, `source` where it was found. `unusable` is why no
    virtual environment can be made from it; None if one can.
    """

    path: Path
    version: str
    minor: str
    source: str
    unusable: str | None = None


@lru_cache(maxsize=256)
def probe(path: str, source: str = "given") -> Interpreter | None:
    """Run the interpreter at `path` and return its facts; None if it does not run or is not a 64-bit CPython 3.

    An interpreter of a virtual environment is replaced by the one that the environment was made from.
    """
    answer = _ask(path)
    if answer is None or answer["implementation"] != "CPython" or answer["bits"] != 64:
        return None
    if answer["in_environment"]:
        base = answer["base"]
        if not base or os.path.realpath(base) == os.path.realpath(path) or not os.access(base, os.X_OK):
            base = os.path.realpath(path)
        again = _ask(base)
        if again is None or again["in_environment"]:
            return None
        path, answer = base, again
    return Interpreter(Path(path), answer["version"], answer["minor"], source, _unusable(answer))


def _ask(path: str) -> dict[str, Any] | None:
    # -I: the user's PYTHONPATH and site packages must not change the answer
    try:
        done = subprocess.run(
            [path, "-I", "-c", _QUESTION], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        answer = json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else None
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    return answer if isinstance(answer, dict) else None


def _unusable(answer: dict[str, Any]) -> str | None:
    if answer["free_threaded"]:
        return "it is a free-threaded build, for which the frameworks publish no packages"
    if answer["lacks"]:
        package = f"python{answer['minor']}-venv"
        return f"it lacks the module {answer['lacks']} (on Debian and Ubuntu: apt install {package})"
    return None


def find(minor: str) -> Interpreter | None:
    """Return the best interpreter of this minor version ("3.6") from which an environment can be made; None without one."""
    return next((one for one in candidates(minor) if one.unusable is None), None)


def candidates(minor: str | None = None) -> Iterator[Interpreter]:
    """Yield the interpreters of this minor version (of any if None), best first, each installation once.

    Includes `unusable` ones, so that callers can say why.
    """
    seen: set[str] = set()
    for path, source in _places(minor):
        real = os.path.realpath(path)
        if real in seen or not os.access(path, os.X_OK) or os.path.isdir(path):
            continue
        seen.add(real)
        result = probe(path, source)
        if result is None or (minor is not None and result.minor != minor):
            continue
        base = os.path.realpath(result.path)
        if base != real and base in seen:
            continue
        seen.add(base)
        yield result


def why_none(minor: str) -> str:
    """Return why no environment can be made from any interpreter of this minor version, and what would help."""
    for one in candidates(minor):
        if one.unusable is not None:
            return f"{one.path} cannot be used: {one.unusable}"
    # uv offers no versions before 3.8
    another = f"uv python install {minor}" if _version_key(minor) >= (3, 8) else f"conda create -n py{minor} python={minor}"
    return f"no Python {minor} was found in PATH, pyenv, uv or conda (get one with: pyenv install {minor}, or {another})"


def _places(minor: str | None) -> Iterator[tuple[str, str]]:
    """Yield the possible places of interpreters, in order of preference, as (path, source)."""
    yield sys.executable, "this one"
    yield from _in_path(minor)
    yield from _pyenv(minor)
    yield from _uv(minor)
    for folder in ("/usr/bin", "/usr/local/bin"):
        yield from ((path, "system") for path in _named(folder, minor))
    for path in sorted(glob.glob(f"/opt/python*/bin/python{minor or '3'}")):
        yield path, "system"
    yield from _conda()


def _named(folder: str, minor: str | None) -> list[str]:
    """Return the interpreters in a folder of commands, newest version first."""
    if minor is not None:
        return [os.path.join(folder, name) for name in (f"python{minor}", "python3", "python")]
    result = glob.glob(os.path.join(glob.escape(folder), "python3*"))
    named = [path for path in result if re.fullmatch(r"python3(\.\d+)?", os.path.basename(path))]
    return sorted(named, key=lambda path: _version_key(os.path.basename(path)), reverse=True)


def _in_path(minor: str | None) -> Iterator[tuple[str, str]]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        # pyenv's shims start the version selected for this folder: the real ones are tried below
        if os.path.isabs(folder) and os.path.basename(folder.rstrip("/")) != "shims":
            yield from ((path, "PATH") for path in _named(folder, minor))


def _version_key(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", name))


def _pyenv(minor: str | None) -> Iterator[tuple[str, str]]:
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    yield from ((path, "pyenv") for path in _versions_below(os.path.join(root, "versions"), minor))
    yield from ((path, "asdf") for path in _versions_below(os.path.expanduser("~/.asdf/installs/python"), minor))


def _uv(minor: str | None) -> Iterator[tuple[str, str]]:
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    folder = os.environ.get("UV_PYTHON_INSTALL_DIR") or os.path.join(data, "uv", "python")
    yield from ((path, "uv") for path in _versions_below(folder, minor))


def _versions_below(folder: str, minor: str | None) -> list[str]:
    """Return FOLDER/<name>/bin/python3 for each name that may be the version, newest first."""
    paths = []
    for path in glob.glob(os.path.join(glob.escape(folder), "*", "bin", "python3")):
        name = os.path.basename(os.path.dirname(os.path.dirname(path)))
        plain = re.match(r"(?:cpython-)?(\d+\.\d+)", name)
        if minor is None or plain is None or plain.group(1) == minor:
            paths.append((_version_key(plain.string) if plain else (), path))
    return [path for _, path in sorted(paths, reverse=True)]


def _conda() -> Iterator[tuple[str, str]]:
    roots = [os.environ.get("CONDA_PREFIX", ""), os.environ.get("MAMBA_ROOT_PREFIX", "")]
    home = os.path.expanduser("~")
    for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba"):
        roots += [os.path.join(home, name), os.path.join("/opt", name)]
    roots.append("/opt/conda")
    for root in filter(None, roots):
        for path in (os.path.join(root, "bin", "python"), *sorted(glob.glob(f"{glob.escape(root)}/envs/*/bin/python"))):
            yield path, "conda"
    for path in sorted(glob.glob(os.path.join(home, ".conda", "envs", "*", "bin", "python"))):
        yield path, "conda"
