"""Run folders and reports are passed on: somebody with a name and secrets records for real, and none of these is in any file."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "kernelscope.cli.main"]
NAME, KEY, ARGUMENT, POSITIONAL = "zaphodbeeblebrox", "planted0secret0value77", "argument0secret8", "hf_" + "a1B2" * 9
PRIVATE = (NAME, KEY, ARGUMENT, POSITIONAL)
SCRIPT = """
import sys, torch
print(sys.argv[1:])
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps):
    for _ in range(steps):
        cache = "%s/.cache/data"
        optimizer.zero_grad()
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
train(600)  # warming up takes longer on a machine that is busy
"""


@pytest.fixture(scope="module")
def somebody(tmp_path_factory):
    """Somebody's home folder, and a function that runs kernelscope in it as this person."""
    home = tmp_path_factory.mktemp("sharing") / "home" / NAME
    home.mkdir(parents=True)
    person = {
        "HOME": str(home), "USER": NAME, "LOGNAME": NAME, "SOME_API_KEY": KEY, "MY_OWN_VARIABLE": KEY, "OMP_NUM_THREADS": "1",
        "KERNELSCOPE_HOME": str(environments.home()), "PYTHONPATH": f"{home}/lib",
    }  # fmt: skip

    def run(*arguments):
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, cwd=home,
            env={**os.environ, **person},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done

    return home, run


def python_of(framework):
    try:
        return environments.resolve(framework, None).python
    except ChildError as error:
        pytest.skip(str(error))


def texts(file):
    """Return what a file holds, unpacked, as bytes."""
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        return repr([column.to_pylist() for column in table.columns] + [table.schema.metadata]).encode()
    content = file.read_bytes()
    return gzip.decompress(content) if file.suffix == ".gz" else content


def private(folder):
    """Return (file, what) for each private thing that is in a folder's files or their names."""
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    assert len(files) > 10
    said = [(file, texts(file) + file.relative_to(folder).as_posix().encode()) for file in files]
    return [(str(file), what) for file, content in said for what in PRIVATE if what.encode() in content]


def test_a_run(somebody):
    home, run = somebody
    python_of("onednn")
    options = ["--mode", "infer", "--batch", 2, "--steps", 3, "--warmup", 0, "--repeats", 1, "--device", "cpu"]
    run("run", "lenet", "-f", "onednn", *options, "-o", home / "run", "--env", f"A_TOKEN={ARGUMENT}")
    assert private(home / "run") == []
    record = (home / "run" / "run.json").read_text()
    assert '"~/run"' in record
    assert '"A_TOKEN=(not recorded)"' in record
    assert "MY_OWN_VARIABLE" not in record


@pytest.mark.long
def test_a_script_that_is_profiled(somebody):
    home, run = somebody
    python = python_of("pytorch")
    script = home / "train.py"
    script.write_text(SCRIPT % home)
    secret = ["--api-key", ARGUMENT, POSITIONAL, f"key={KEY}"]
    done = run("profile", "-o", home / "own", "--steps", 4, "--warmup", 2, "--quiet", "--", python, script, *secret)
    assert ARGUMENT in done.stdout, "the script itself gets what it is given"
    assert private(home / "own") == []
    lines = (home / "own" / "lines" / "1" / "lines.json").read_text()
    assert "~/.cache/data" in lines, "lines are shown, without the folder"
    run("report", home / "own", "-o", home / "own.html")
    page = (home / "own.html").read_text()
    assert "~/train.py" in page
    assert not any(what in page for what in PRIVATE)
