"""The portable agent: packed for real, run by interpreters that know nothing of kernelscope."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernelscope.analysis.accounting.breakdowns import breakdown
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.inside import plan
from kernelscope.tracer.outside import agent, environments, interpreters
from kernelscope.tracer.outside.errors import InputError
from kernelscope.tracer.outside.options import RunOptions

TOY = str(Path(__file__).parent / "children" / "toy_adapter.py")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    agent.pack(path)
    return path


def _agent(packed, *arguments, python=sys.executable, variables=None, folder=None):
    # -S and -I: nothing that is installed beside this interpreter can be imported
    command = [python, *(("-I", "-S") if python == sys.executable else ()), packed, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=variables, cwd=folder)


def test_it_holds_what_children_import_and_nothing_of_the_rest(packed):
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
    folders = {"/".join(name.split("/")[:3]) for name in names if name.count("/") > 2}
    assert "kernelscope/tracer/inside" in folders
    assert "kernelscope/workloads/networks/__init__.py" in names
    assert not [name for name in names if "outside" in name or "analysis" in name or name.endswith(".txt")]


def test_a_file_that_is_there_is_kept(packed):
    before = packed.read_bytes()
    with pytest.raises(InputError, match="--force"):
        agent.pack(packed)
    assert packed.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--version"], 0, "kernelscope agent"),
        (["run", "nonet", "-f", "pytorch", "-o", "x"], 2, "unknown workload 'nonet'; known: lenet"),
        (["run", "lenet", "-f", "nothing", "-o", "x"], 2, "unknown framework 'nothing'; known: pytorch"),
        (["run", "lenet", "-f", "pytorch", "-o", "x", "--data", "/nowhere"], 2, "--data /nowhere: not a folder"),
        (["run", "lenet", "-f", "pytorch", "-o", "/proc/nowhere"], 3, "name another folder"),
        (["run", "lenet", "-f", "pytorch", "-o", ""], 2, "the name is empty; write one"),
        (["profile", "-o", "", "--", "train.py"], 2, "the name is empty; write one"),
        ([], 2, "no command; name run, profile or check"),
        (["run", "lenet"], 2, "the following arguments are required: -f/--framework"),
        (["profile"], 2, "no command; name one after --"),
        (["profile", "--steps", "3:4", "--", "train.py"], 2, "write a number of steps, or A:B"),
        (["profile", "--seconds", "nan", "--", "train.py"], 2, "'nan' is not a number of seconds above 0"),
        (["profile", "-o", "/proc/nowhere", "--", "train.py"], 3, "name another folder"),
    ],
)
def test_wrong_use_is_answered_in_one_line(packed, arguments, status, said):
    done = _agent(packed, *arguments)
    assert done.returncode == status
    assert said in (done.stdout + done.stderr).strip().splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_interpreter_without_the_framework_leaves_a_readable_folder(packed, tmp_path):
    done = _agent(packed, "run", "lenet", "-f", "pytorch", "-o", tmp_path / "run", "--device", "cpu")
    assert done.returncode == 4
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["complete"] is False
    assert "No module named" in record["reason"]
    assert Run(tmp_path / "run").passes("clean") == []


def _python(version):
    if version is None or os.path.isabs(version):
        return version or sys.executable
    found = interpreters.probe("/usr/bin/python3") if version == "system" else interpreters.find(version)
    if found is None:
        pytest.skip(f"no Python {version}")
    return str(found.path)


OTHERS = os.environ.get("KERNELSCOPE_PYTHONS", "").split(os.pathsep)  # see tests/tools/interpreters


@pytest.mark.parametrize("version", [None, "system", *(f"3.{minor}" for minor in range(6, 14)), *filter(None, OTHERS)])
def test_it_profiles_a_script_with_the_interpreter_it_is_started_with(packed, tmp_path, version):
    beside = {path.name: path.stat().st_mtime_ns for path in packed.parent.iterdir()}
    done = _agent(
        packed, "profile", "--steps", "5", "--warmup", "2", "--", TOY, "60", "three",
        python=_python(version), folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert done.stdout == "".join(f"step {number}, done\n" for number in range(60))
    assert "steps: clean 5, layers 2, kernels 2" in done.stderr
    run = Run((tmp_path / "kernelscope-toy_adapter").rename(tmp_path / "moved"))
    assert run.complete
    assert run.record["profiled"][-2:] == ["60", "three"]
    assert len(run.clean_steps()) == 5
    assert {row.layer for row in run.layers_trace().ranges.itertuples() if row.category == "layer"} == {"first"}
    assert {path.name: path.stat().st_mtime_ns for path in packed.parent.iterdir()} == beside, "nothing is written beside it"


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (["python3", "-c", "print(1)"], 4, "no framework was imported; known are "),
        (["nosuchcommand"], 2, "nosuchcommand: no such command"),
        (["python3", "-c", "import shutil; shutil.rmtree('run')"], 4, "it was removed or renamed while the script ran"),
    ],
)
def test_commands_that_leave_nothing_are_told_so(packed, tmp_path, command, status, said):
    done = _agent(packed, "profile", "-o", "run", "--", *command, folder=tmp_path)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_without_ctypes_is_told_so(packed):
    without = "import runpy, sys; sys.modules['_ctypes'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", without, packed], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "has no ctypes" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_record_has_what_other_runs_have():
    assert set(RunOptions("lenet").as_dict()) >= {"network", "mode", "batch", "device", "threads", "steps", "warmup", "collector"}
    order = plan.order(2)
    assert order[0] == ("check", 1)
    assert order[-1] == ("lines", 1)
    assert sorted(order) == sorted([("check", 1), ("layers", 1), ("lines", 1), *((n, r) for n in plan.REPEATED for r in (1, 2))])
    assert sum(plan.windows(12)) == 12


@pytest.mark.slow
@pytest.mark.parametrize("framework", [pytest.param("pytorch", marks=pytest.mark.long), "cntk"])
def test_what_it_records_is_a_run_like_any_other(packed, tmp_path, framework):
    """CNTK's interpreter is a Python 3.6."""
    environment = environments.resolve(framework, None)
    small = ["--batch", "8", "--steps", "5", "--warmup", "2", "--repeats", "1", "--device", "cpu"]
    folder = tmp_path / "run"
    done = _agent(
        packed, "run", "lenet", "-f", framework, "-o", folder, *small,
        python=environment.python, variables={"PATH": "/usr/bin:/bin", **environment.variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = Run(folder.rename(tmp_path / "moved"))
    assert run.complete
    assert run.record["version"]
    assert all(product["flops_per_s"] > 1e8 for product in run.record["ceilings"]["products"])
    assert run.record["ceilings"]["products"]
    table = breakdown(run.trace(), "layer")
    assert table.table["time_ns"].sum() == table.step_ns
    assert {"conv1", "fc3"} <= set(table.table["layer"])
    metrics = set(run.passes("clean")[0].samples()["metric"])
    assert {"core_busy", "resident_bytes", "threads"} <= metrics
    written = "".join(path.read_text(errors="replace") for path in run.path.rglob("*.json"))
    assert "PATH" not in json.loads((run.path / "run.json").read_text())["variables"]
    assert "kernelscope-agent-" not in (run.path / "lines" / "1" / "lines.json").read_text()
    assert "LD_LIBRARY_PATH" not in written


@pytest.mark.slow
@pytest.mark.long
def test_steps_of_optimizers_are_seen_where_pytorch_does_not_tell_them(packed, tmp_path):
    """Alone shows PyTorch before 2.0, which has no hooks of optimizers: 1.5.1, where the environment of Caffe2 is set up."""
    found = environments.find("caffe2")
    if found is None:
        pytest.skip("the environment of caffe2, which has PyTorch 1.5.1, is not set up")
    script = str(Path(TOY).with_name("train_torch.py"))
    done = _agent(packed, "profile", "-o", "run", "--", str(found.python), script, python=str(found.python), folder=tmp_path)
    assert "each ends with an optimizer's step" in done.stderr
    run = Run(tmp_path / "run")
    assert len(run.clean_steps()) >= 20
    ranges = run.layers_trace().ranges
    assert {"stem", "blocks.0.conv1"} <= set(ranges.loc[ranges["category"] == "layer", "name"])
    assert (ranges["phase"] == "optimizer").any()
