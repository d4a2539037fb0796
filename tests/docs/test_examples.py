"""The worked examples of the pages for newcomers: each is applied to a copy of the project, and its own tests run there."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.places import ROOT

EXAMPLES = ROOT / "docs/examples"
PACKAGES = ("analysis", "cli", "nsys_wrappers", "reports", "tracer", "workloads")


@pytest.fixture
def applied(tmp_path, request):
    """A copy of the project as people import it, with the files of an example added."""
    example = EXAMPLES / request.param
    package = tmp_path / "kernelscope"
    shutil.copytree(ROOT / "kernelscope", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in PACKAGES:
        changed = (example / name).exists()
        copy = shutil.copytree if changed else os.symlink
        copy(ROOT / name, package / name)
        if changed:
            shutil.copytree(example / name, package / name, dirs_exist_ok=True)
    shutil.copytree(example / "tests", tmp_path / "tests")
    return tmp_path


@pytest.mark.parametrize("applied", ["add-format", "add-analysis", "add-adapter"], indirect=True)
def test_the_example_works_where_it_is_applied(applied):
    environment = {**os.environ, "PYTHONPATH": str(applied)}
    command = [sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "--rootdir", str(applied), str(applied / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=applied, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_an_adapter_is_a_package_and_a_module_that_reads_what_it_wrote():
    """Both are found by their names: nothing of the project is replaced."""
    added = sorted(path.relative_to(EXAMPLES / "add-adapter") for path in (EXAMPLES / "add-adapter").rglob("*.py"))
    assert [str(path) for path in added if path.parts[0] != "tests"] == [
        "analysis/attribution/frameworks/toyframe.py",
        "tracer/inside/frameworks/toyframe/__init__.py",
        "tracer/inside/frameworks/toyframe/script.py",
    ]
    assert [path for path in added if (ROOT / path).exists()] == []


@pytest.mark.parametrize("example", ["add-format", "add-analysis"])
def test_an_example_adds_one_package_and_one_test_and_replaces_nothing(example):
    added = [path.relative_to(EXAMPLES / example) for path in (EXAMPLES / example).rglob("*.py")]
    tests = [path for path in added if path.parts[0] == "tests"]
    assert len(tests) == 1
    assert len({path.parent for path in added} - {tests[0].parent}) == 1
    assert [path for path in added if (ROOT / path).exists()] == []


@pytest.mark.parametrize(("page", "example"), [("add-reader.md", "add-format"), ("add-analysis.md", "add-analysis")])
def test_the_page_shows_the_code_of_the_example(page, example):
    shown = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)
    code = {path.read_text(encoding="utf8") for path in (EXAMPLES / example / "analysis").rglob("*.py")}
    assert set(shown) == code
