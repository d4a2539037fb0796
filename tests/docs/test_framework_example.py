"""The worked example of adding a framework: added to a copy of the project, its own test trains and records it."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.places import ROOT

EXAMPLE = ROOT / "docs/examples/add-framework"
PACKAGES = ("analysis", "cli", "nsys_wrappers", "reports", "tracer", "workloads")


@pytest.fixture(scope="module")
def applied(tmp_path_factory):
    """A copy of the project as people import it, with the files of the example added."""
    folder = tmp_path_factory.mktemp("applied")
    package = folder / "kernelscope"
    shutil.copytree(ROOT / "kernelscope", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PACKAGES:
        if (EXAMPLE / name).exists():
            shutil.copytree(ROOT / name, package / name)
            shutil.copytree(EXAMPLE / name, package / name, dirs_exist_ok=True)
        else:
            (package / name).symlink_to(ROOT / name)
    shutil.copytree(EXAMPLE / "tests", folder / "tests")
    (folder / "tests/data").symlink_to(ROOT / "tests/data")
    return folder


def run(folder, *command):
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, env=variables, cwd=folder, check=False
    )


@pytest.mark.slow
def test_the_example_trains_and_is_recorded_where_it_is_added(applied):
    done = run(applied, "pytest", "-q", "--import-mode=importlib", "--rootdir", str(applied), str(applied / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_commands_know_it_without_being_told(applied):
    listed = run(applied, "kernelscope.cli.main", "env", "list", "--format", "csv").stdout
    assert [line for line in listed.splitlines() if line.startswith("plainnumpy,")]
    assert "plainnumpy" in run(applied, "kernelscope.cli.main", "run", "--help").stdout


def test_the_example_is_one_package_and_one_test_and_replaces_nothing():
    added = [path.relative_to(EXAMPLE) for path in EXAMPLE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.parent) for path in added} == {"workloads/plainnumpy", "tests/workloads"}
    assert len([path for path in added if path.parts[0] == "tests"]) == 1
    assert [path for path in added if (ROOT / path).exists()] == []


def test_the_page_shows_what_the_example_holds():
    page = (ROOT / "docs/add-framework.md").read_text(encoding="utf8")
    requirements = (EXAMPLE / "workloads/plainnumpy/plainnumpy-cpu.txt").read_text(encoding="utf8")
    assert re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) == [requirements]
    shown = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    program = (EXAMPLE / "workloads/plainnumpy/program.py").read_text(encoding="utf8")
    method = re.search(r"^    def mark\(.*?\Z", program, re.MULTILINE | re.DOTALL)[0]
    assert [re.sub(r"^    ", "", method, flags=re.MULTILINE)] == shown
