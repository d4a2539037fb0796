"""The wheel holds every file of the product, and what it installs records a script: an editable installation hides what lacks."""

import os
import subprocess
import sys
import zipfile

import pytest

from kernelscope.tracer.outside import environments
from tests.places import ROOT

FOLDERS = ("analysis", "cli", "kernelscope", "nsys_wrappers", "reports", "tracer", "workloads")

pytestmark = pytest.mark.slow


def tracked(*paths):
    """Return the files below these paths that belong to the project, one a line."""
    return subprocess.run(["git", "-C", str(ROOT), "ls-files", *paths], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    copying = ["git", "-C", str(ROOT), "checkout-index", "--stdin", f"--prefix={folder / 'source'}/"]
    subprocess.run(copying, check=True, input=tracked(*FOLDERS, "setup.py", "pyproject.toml", "README.md", "LICENSE*"), text=True)
    building = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(folder / "source")]
    subprocess.run(building, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_every_file_is_in_it(wheel):
    wanted = {path if path.startswith("kernelscope/") else f"kernelscope/{path}" for path in tracked(*FOLDERS).split()}
    with zipfile.ZipFile(wheel) as packed:
        assert wanted - set(packed.namelist()) == set()


def test_what_it_installs_records_a_script(wheel, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "site"), str(wheel)]
    subprocess.run(install, check=True)
    script = ROOT / "tests" / "tracer" / "children" / "train_tiny.py"
    framework = environments.find("pytorch")
    if framework is None:
        pytest.skip("PyTorch's environment is not set up")
    command = [sys.executable, "-m", "kernelscope.cli.main", "profile", "-o", "made", "--", str(framework.python), str(script)]
    variables = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "A step takes" in done.stderr
    assert (tmp_path / "made" / "report.html").is_file()
