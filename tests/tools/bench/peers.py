"""The tools that we are measured against, in environments of their own."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

from kernelscope.nsys_wrappers.find import find

NSYS_AI, HTA, NSYS = "nsys-ai", "HolisticTraceAnalysis", "nsys"
_INSTALL = "say --install-peers"
_PINS = {
    NSYS_AI: ("nsys-ai==0.3.0", "duckdb==1.5.5", "duckdb-extension-sqlite-scanner==1.5.5", "duckdb-extensions"),
    HTA: ("HolisticTraceAnalysis==0.5.0",),
}
_FOLDERS = {NSYS_AI: "nsysai", HTA: "hta", NSYS: "nsys"}
_DEBIAN = ("nsight-systems", "nsight-systems-target")  # unpacked only: their own installation wants a GPU's driver
# else DuckDB looks for it in the internet; kept in the home folder, so each home needs it
_SCANNER = "from duckdb_extensions import import_extension; import_extension('sqlite_scanner')"


class Missing(Exception):
    """A peer that is not there; the text says why."""


class Peers:
    """Finds the peers. folder: their environments; home: the home folder that they run with; nsys: the one to use, if named."""

    def __init__(self, folder: Path, home: Path, nsys: str | None):
        self._folder = folder
        self._nsys = nsys
        self.variables = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
        home.mkdir(parents=True, exist_ok=True)

    def python(self, name: str) -> str:
        """Return the interpreter of a peer's environment."""
        path = self._folder / _FOLDERS[name] / "bin/python"
        if not path.exists():
            raise Missing(f"no {name}: {_INSTALL}")
        return str(path)

    def nsys_ai(self) -> str:
        """Return nsys-ai's command, ready to read SQLite."""
        python = self.python(NSYS_AI)
        _quietly([python, "-c", _SCANNER], self.variables)
        return str(Path(python).with_name("nsys-ai"))

    def nsys(self) -> str:
        """Return nsys: the named one, the one unpacked by --install-peers, or the one that kernelscope finds."""
        pattern = f"{glob.escape(str(self._folder / _FOLDERS[NSYS]))}/usr/lib/*/nsight-systems*/target-linux-*/nsys"
        unpacked = sorted(glob.glob(pattern))
        if self._nsys or unpacked:
            return self._nsys or unpacked[-1]
        tool = find("nsys")
        if tool is None:
            raise Missing(f"no nsys: install Nsight Systems, or add Debian's component non-free to apt's sources and {_INSTALL}")
        return str(tool.path)

    def install(self) -> None:
        """Install what is not there yet; say in a line what cannot be."""
        for name, pins in _PINS.items():
            try:
                self.python(name)
            except Missing:
                self._install(name, pins)
        try:
            self.nsys()
        except Missing:
            self._unpack_nsys()

    def _install(self, name: str, pins: tuple[str, ...]) -> None:
        print(f"installing {', '.join(pins)} ...", flush=True)
        folder = self._folder / _FOLDERS[name]
        try:
            _quietly([sys.executable, "-m", "venv", "--clear", str(folder)])
            _quietly([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins])
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)  # a half one shall not count
            if not isinstance(error, Missing):
                raise
            print(f"  {name} cannot be installed: {error}", flush=True)

    def _unpack_nsys(self) -> None:
        """Download Debian's packages and unpack them, as an ordinary user."""
        folder = self._folder / _FOLDERS[NSYS]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _quietly(["apt-get", "download", *_DEBIAN], folder=folder)
            for package in sorted(folder.glob("*.deb")):
                _quietly(["dpkg-deb", "-x", str(package), str(folder)])
                package.unlink()
        except Missing as error:
            print(f"  nsys cannot be unpacked: {error}", flush=True)


def _quietly(command: list[str], variables: dict[str, str] | None = None, folder: Path | None = None) -> None:
    """Run a command; raise Missing with the last line that it printed when it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **(variables or {})}, cwd=folder
        )
    except OSError as error:
        raise Missing(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Missing(f"{' '.join(command[:3])}: {lines[-1] if lines else f'exit status {done.returncode}'}")
