"""Interpreters are found by running what is there, never by trusting a name."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.tracer.outside import interpreters

MINOR = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch, tmp_path):
    """Only what a test puts there can be found, apart from this interpreter and the system's."""
    interpreters.probe.cache_clear()
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME", "CONDA_PREFIX", "MAMBA_ROOT_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def pretend(path: Path, version: str, **changes: object) -> Path:
    """Put a program there that answers as an interpreter of this version does."""
    answer = {
        "implementation": "CPython", "version": version, "minor": version.rpartition(".")[0], "in_environment": False,
        "base": None, "free_threaded": False, "bits": 64, "lacks": None, **changes,
    }  # fmt: skip
    text = str(answer).replace("None", "null").replace("False", "false").replace("True", "true").replace("'", '"')
    return script(path, f"#!/bin/sh\necho '{text}'\n")


def test_this_interpreter_is_found_with_its_version():
    found = interpreters.find(MINOR)
    assert found is not None
    assert found.version == platform.python_version()
    told = subprocess.run([found.path, "-c", "import sys; print(sys.prefix == sys.base_prefix)"], capture_output=True, text=True)
    assert told.stdout.strip() == "True", "the base of a virtual environment, not the environment"


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("bin/python3.6", "PATH"),
        ("home/.pyenv/versions/3.6.15/bin/python3", "pyenv"),
        ("home/.local/share/uv/python/cpython-3.6.15-linux-x86_64-gnu/bin/python3", "uv"),
        ("home/miniconda3/envs/old/bin/python", "conda"),
        ("home/miniforge3/bin/python", "conda"),
        ("home/.conda/envs/old/bin/python", "conda"),
        ("home/.asdf/installs/python/3.6.15/bin/python3", "asdf"),
    ],
)
def test_places(tmp_path, place, source):
    path = pretend(tmp_path / place, "3.6.15")
    found = interpreters.find("3.6")
    assert found == interpreters.Interpreter(path, "3.6.15", "3.6", source)


def test_variables_name_other_places(tmp_path, monkeypatch):
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "py env"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    old = pretend(tmp_path / "py env/versions/3.6.15/bin/python3", "3.6.15")
    new = pretend(tmp_path / "uv/cpython-3.7.1-linux/bin/python3", "3.7.1")
    assert interpreters.find("3.6").path == old
    assert interpreters.find("3.7").path == new


def test_newest_patch_release_first(tmp_path):
    for version in ("3.6.9", "3.6.15", "3.6.2"):
        pretend(tmp_path / f"home/.pyenv/versions/{version}/bin/python3", version)
    assert [found.version for found in interpreters.candidates("3.6")] == ["3.6.15", "3.6.9", "3.6.2"]


def test_shims_and_liars_are_skipped(tmp_path):
    script(tmp_path / "bin/python3.6", "#!/bin/sh\necho 'pyenv: python3.6: command not found' >&2\nexit 127\n")
    pretend(tmp_path / "home/.pyenv/versions/3.6.1/bin/python3", "3.7.0")
    pretend(tmp_path / "home/.pyenv/versions/pypy3.6-7.3/bin/python3", "3.6.9", implementation="PyPy")
    pretend(tmp_path / "home/miniconda3/bin/python", "3.6.5", bits=32)
    assert interpreters.find("3.6") is None
    assert "pyenv install 3.6" in interpreters.why_none("3.6")
    assert "uv" not in interpreters.why_none("3.6").partition("(")[2], "uv has no 3.6"


def test_broken_links_and_folders_are_skipped(tmp_path):
    (tmp_path / "bin/python3.6").mkdir(parents=True)
    versions = tmp_path / "home/.pyenv/versions/3.6.1/bin"
    versions.mkdir(parents=True)
    (versions / "python3").symlink_to("/nowhere/python3")
    assert list(interpreters.candidates("3.6")) == []


def test_one_that_cannot_make_environments_is_named_with_the_remedy(tmp_path):
    path = pretend(tmp_path / "bin/python3.6", "3.6.9", lacks="ensurepip")
    assert interpreters.find("3.6") is None
    reason = interpreters.why_none("3.6")
    assert str(path) in reason
    assert "apt install python3.6-venv" in reason
    good = pretend(tmp_path / "home/.pyenv/versions/3.6.15/bin/python3", "3.6.15")
    assert interpreters.find("3.6").path == good


def test_free_threaded_builds_are_not_used(tmp_path):
    pretend(tmp_path / "bin/python3.6", "3.6.0", free_threaded=True)
    assert interpreters.find("3.6") is None
    assert "free-threaded" in interpreters.why_none("3.6")


def test_each_installation_once(tmp_path):
    path = pretend(tmp_path / "home/.pyenv/versions/3.6.15/bin/python3", "3.6.15")
    (tmp_path / "bin").mkdir()
    os.symlink(path, tmp_path / "bin/python3.6")
    assert len(list(interpreters.candidates("3.6"))) == 1
