"""What records a kernels pass: which collector is taken and why, a child under it, and what is kept of a recording."""

import json
import os
import signal
import sqlite3
import stat
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from kernelscope.cli import main
from kernelscope.nsys_wrappers import find, privacy
from kernelscope.nsys_wrappers.find import Tool
from kernelscope.tracer.outside import collectors, gpu
from kernelscope.tracer.outside.collectors import ToolCollector, choose, merged, usable
from kernelscope.tracer.outside.environments import Environment
from kernelscope.tracer.outside.errors import ChildError, UsageError
from kernelscope.tracer.outside.options import RunOptions
from kernelscope.tracer.outside.process import Child
from kernelscope.tracer.outside.session import Session
from kernelscope.tracer.outside.variants import Variant

# It starts the program in a session of its own, as nsys does, and copies what it is to have recorded from beside itself.
FAKE_NSYS = """#!{python}
import itertools, os, pathlib, shutil, subprocess, sys
words = sys.argv[1:]
if "--version" in words:
    print("NVIDIA Nsight Systems version 2024.6.2.225-abc")
elif words[0] == "export":
    shutil.copy(pathlib.Path(__file__).parent / "recorded.sqlite", words[words.index("--output") + 1])
elif words[0] == "profile" and "--help" not in words:
    options = list(itertools.takewhile(lambda word: word.startswith("--"), words[1:]))
    output = next(word for word in options if word.startswith("--output=")).partition("=")[2]
    os.umask(0)
    variables = dict(os.environ, NSYS_AGENT_TMP_DIR=os.environ["TMPDIR"])
    child = subprocess.Popen(words[1 + len(options):], close_fds=False, start_new_session=True, env=variables)
    status = child.wait()
    print("Generating '/tmp/nsys-report-1a2b.qdstrm'\\nGenerated:\\n    " + output + ".nsys-rep")
    pathlib.Path(output + ".nsys-rep").write_text("report")
    sys.exit(status if status >= 0 else 128 - status)
"""
ENVIRONMENT = "HOME=/home/somebody\0HF_TOKEN=hush-hush\0LANG=C\0"


@pytest.fixture
def nsys(tmp_path):
    """A fake nsys whose recordings hold the ranges "step 0" and "step 1", and an environment of some process."""
    path = tmp_path / "n" / "bin" / "nsys"
    path.parent.mkdir(parents=True)
    for program in (path, tmp_path / "n" / "host-linux-x64" / "QdstrmImporter"):
        program.parent.mkdir(exist_ok=True)
        program.write_text(FAKE_NSYS.format(python=sys.executable))
        program.chmod(0o755)
    export(path.parent / "recorded.sqlite")
    return Tool("nsys", path, "2024.6.2.225", "named")


def export(path):
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE StringIds (id INTEGER, value TEXT);"
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER);"
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
        )
        database.execute("INSERT INTO StringIds VALUES (1, ?), (2, 'a=b')", (ENVIRONMENT,))
        database.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL)", [(1, 2, "step 0"), (3, 4, "step 1")])
        facts = [("DeviceEnvironment", ENVIRONMENT), ("Hostname", "a-host"), ("CpuCores", "2")]
        database.executemany("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (?, ?)", facts)
        database.commit()
    return path


@pytest.fixture
def on_a_gpu(monkeypatch):
    """The function that makes the machine one with a GPU of this compute capability, and with these profilers."""

    def make(capability, **tools):
        device = gpu.Gpu(0, "NVIDIA H200", None, capability, None)
        monkeypatch.setattr(gpu, "find", lambda: gpu.Gpus((device,), None))
        monkeypatch.setattr(find, "find", tools.get)
        monkeypatch.setattr(find, "failures", lambda name: [])
        monkeypatch.setattr(find, "usable", lambda tool: None)
        monkeypatch.setattr(collectors, "_installed", lambda name, *_: tools.get(name))

    return make


# Which one is taken


def test_on_a_cpu_the_framework_records_unless_something_else_is_asked_for(nsys):
    choice = choose("auto", "cntk", "cpu")
    assert (choice.asked, choice.used, choice.unavailable, choice.tool) == ("auto", "framework", {}, None)
    choice = choose("nsys", "cntk", "cpu", nsys=str(nsys.path))
    assert choice.as_dict() == {"asked": "nsys", "used": "nsys", "reason": "asked for", "version": "2024.6.2.225"}


@pytest.mark.parametrize("collector", ["nvprof", "cupti"])
def test_what_records_gpus_is_refused_on_a_cpu(collector):
    expected = f"--collector {collector}: pytorch: {collector} records only work of GPUs.*use --collector framework or nsys"
    with pytest.raises(UsageError, match=expected) as caught:
        choose(collector, "pytorch", "cpu")
    assert caught.value.exit_code == 2


def test_an_nsys_that_is_none(tmp_path):
    (tmp_path / "nsys").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "nsys").chmod(0o755)
    with pytest.raises(UsageError, match=r"--nsys .*/nsys is not nsys"):
        choose("auto", "pytorch", "cpu", nsys=str(tmp_path / "nsys"))
    with pytest.raises(UsageError, match="there is no program nsys"):
        choose("nsys", "pytorch", "cpu", nsys=str(tmp_path / "absent"))


def test_without_nsys_the_reason_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(find, "failures", lambda name: [])
    monkeypatch.setattr(collectors, "_installed", lambda name, *_: None)
    with pytest.raises(
        UsageError, match="--collector nsys: mxnet: not found; install Nsight Systems, or give its path with --nsys"
    ):
        choose("nsys", "mxnet", "cpu")


def test_auto_takes_the_first_that_works_and_says_why_not_the_others(on_a_gpu, nsys):
    nvprof = Tool("nvprof", Path("/usr/bin/nvprof"), "11.8.86", "PATH")
    on_a_gpu("9.0", nsys=nsys, nvprof=nvprof)
    assert choose("auto", "pytorch", "cuda").used == "framework"
    assert choose("auto", "keras-torch", "cuda").used == "framework"
    assert choose("auto", "mxnet", "cuda").used == "nsys"
    on_a_gpu("9.0", nvprof=nvprof)
    choice = choose("auto", "mxnet", "cuda")
    assert choice.used == "framework"
    assert list(choice.unavailable) == ["nsys", "nvprof", "cupti"]
    assert "this one has 9.0" in choice.unavailable["nvprof"]
    assert "kernelscope env create mxnet" in choice.unavailable["cupti"]
    on_a_gpu("7.0", nvprof=nvprof)
    assert choose("auto", "mxnet", "cuda").tool == nvprof
    on_a_gpu("9.0")
    with pytest.raises(
        UsageError, match=r"--collector auto: cudnn: none is available: nsys: not found.*no profiler of their own"
    ):
        choose("auto", "cudnn", "cuda")


def test_the_interpreter_is_asked_for_cupti(on_a_gpu, tmp_path):
    on_a_gpu("9.0")
    own = usable("cupti", "pytorch", "cuda", Environment("pytorch", Path(sys.executable), "2"))
    assert own is None or "\n" not in own  # a driver and the package, or why not
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'ImportError: no site' >&2\nexit 1\n")
    broken.chmod(0o755)
    reason = usable("cupti", "pytorch", "cuda", Environment("pytorch", broken, "2"))
    assert reason == f"{broken} could not be checked for CUPTI: ImportError: no site"
    assert "could not be checked" in usable("cupti", "pytorch", "cuda", Environment("pytorch", tmp_path / "absent", "2"))


def test_the_command_line_refuses_before_it_touches_the_results(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "compare.json").write_text("{}")
    (tmp_path / "python").symlink_to(sys.executable)
    asked = ["run", "lenet", "-f", "pytorch", "-o", str(tmp_path / "out"), "--force", "--device", "cpu"]
    assert main.main([*asked, "--python", str(tmp_path / "python"), "--collector", "cupti"]) in (2, 4)
    assert (tmp_path / "out" / "compare.json").exists()
    assert len(capsys.readouterr().err.splitlines()) == 1


# A child under it


def start(nsys, folder):
    folder.mkdir(exist_ok=True)
    recording = ToolCollector(nsys, folder, "cpu")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent / "children"), "HF_TOKEN": "hush-hush"}
    spec = {"framework": "pytorch", "pass": "kernels"}
    return recording, Child(Path(sys.executable), spec, folder, environment, 20.0, "answering", recording)


def ended(pid):
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_a_child_under_a_collector_is_talked_to_as_any_other(nsys, tmp_path):
    folder = tmp_path / "run"
    recording, child = start(nsys, folder)
    ready = child.answer()
    assert ready["pid"] == child.pid != child._process.pid
    assert ready["variables"]["HF_TOKEN"] == "hush-hush", "the child has its whole environment"
    assert {child.pid, child._process.pid} <= set(recording.processes())
    assert child.tell(do="window") == {"event": "window", "step_ns": [5]}
    child.wait_until_asleep()
    child.finish()
    found = recording.finish({"step 0": 1, "step 1": 2}, {}, 10.0)
    assert found["nvtx"] == {"emitted": 3, "recorded": 2}
    assert found["lost"] == {"step 1": 1}
    assert any("1 of 3 NVTX ranges were lost" in line for line in collectors.problems(found))
    assert ended(ready["pid"])
    assert stat.S_IMODE((folder / "told.txt").stat().st_mode) & 0o022 == 0, "nobody else may write what the child writes"


def test_environments_are_not_kept(nsys, tmp_path):
    for keep, kept in ((False, ["nsys.sqlite"]), (True, ["nsys.nsys-rep", "nsys.sqlite"])):
        folder = tmp_path / str(keep)
        folder.mkdir()
        recording = ToolCollector(nsys, folder, "cpu", keep)
        (folder / "nsys.nsys-rep").write_text("report")
        recording.finish({}, {}, 0.0)
        assert sorted(path.name for path in folder.glob("nsys.*")) == kept
        assert b"hush" not in (folder / "nsys.sqlite").read_bytes()


def test_only_environments_and_names_of_the_machine_are_blanked(tmp_path):
    path = export(tmp_path / "some.sqlite")
    assert privacy.without_environments(path) == 3
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT value FROM StringIds ORDER BY id").fetchall() == [("",), ("a=b",)]
        assert database.execute("SELECT value FROM TARGET_INFO_SYSTEM_ENV").fetchall() == [("",), ("",), ("2",)]
        assert database.execute("SELECT count(*) FROM NVTX_EVENTS").fetchone() == (2,)
    assert privacy.without_environments(path) == 0


def test_a_collector_that_is_killed_half_way_does_not_take_the_child_along(nsys, tmp_path):
    recording, child = start(nsys, tmp_path / "run")
    child.answer()
    os.kill(child._process.pid, signal.SIGKILL)
    assert child.tell(do="window") == {"event": "window", "step_ns": [5]}
    child.finish()
    found = recording.finish({"step 0": 1}, {}, 10.0)
    assert (found["nvtx"], found["kernels"]) == ({"emitted": 1, "recorded": None}, None)
    assert any("left no report" in line for line in found["failures"])
    assert ended(child.pid)


def test_a_child_that_fails_is_named_by_its_own_words(nsys, tmp_path):
    recording, child = start(nsys, tmp_path / "run")
    child.answer()
    with pytest.raises(ChildError, match=r"ended with signal SIGABRT: the child's last word \(log: "):
        child.tell(do="fail")
    assert recording.processes() == []
    assert list((tmp_path / "run").glob("nsys.nsys-rep")) == []


def test_a_child_that_is_stopped_ends_with_its_collector(nsys, tmp_path):
    recording, child = start(nsys, tmp_path / "run")
    child.answer()
    child.stop()
    assert ended(child.pid)
    assert recording.processes() == []
    child.stop()  # again, as when a session is given up


def test_a_release_that_cannot_do_it_is_a_side_that_fails(nsys, tmp_path):
    with pytest.raises(ChildError, match=r"nsys: nsys 2020\.5 is older than 2021"):
        ToolCollector(Tool("nsys", nsys.path, "2020.5", "named"), tmp_path, "cpu")


# What run.json says


def test_repeats_are_added_up_and_unknown_stays_unknown():
    whole = {"version": "2024.6", "failures": [], "nvtx": {"emitted": 5, "recorded": 5}, "kernels": 7, "lost": {}, "missing": []}
    lossy = {**whole, "nvtx": {"emitted": 5, "recorded": 3}, "lost": {"step 1": 2}, "missing": ["2 of 5"], "warnings": ["w"]}
    found = merged({"kernels/1": whole, "kernels/2": lossy, "kernels/3": lossy})
    assert found["nvtx"] == {"emitted": 15, "recorded": 11}
    assert (found["kernels"], found["lost"], found["missing"], found["warnings"]) == (21, {"step 1": 4}, ["2 of 5"], ["w"])
    assert list(found["folders"]) == ["kernels/1", "kernels/2", "kernels/3"]
    gone = {"failures": ["no report"], "nvtx": {"emitted": 5, "recorded": None}, "kernels": None}
    found = merged({"kernels/1": whole, "kernels/2": gone})
    assert found["nvtx"] == {"emitted": 10, "recorded": None}
    assert (found["kernels"], found["missing"]) == (None, ["no report"])


def test_a_run_says_which_collectors_could_not_be_had(on_a_gpu, tmp_path):
    on_a_gpu("9.0")
    variant = Variant("mxnet", Environment("mxnet", tmp_path / "absent", "1.9.1"))
    session = Session([variant], RunOptions("lenet", device="cuda"), [tmp_path / "run"], ["kernelscope"])
    assert session.sides[0].choice.used == "framework"
    assert {"collector nsys", "collector nvprof", "collector cupti"} <= set(session.sides[0].folder.record["unavailable"])


def test_what_a_profiler_lost_is_in_the_record_and_a_warning_and_the_pass_is_kept(nsys, tmp_path):
    variant = Variant("pytorch", Environment("pytorch", tmp_path / "absent", "2"))
    choice = choose("nsys", "pytorch", "cpu", nsys=str(nsys.path))
    session = Session([variant], RunOptions("lenet"), [tmp_path / "run"], ["kernelscope"], [choice])
    [side] = session.sides
    reports = [{"count": 2, "names": {"step 0": 1, "step 1": 1}}, {"count": 3, "names": {"step 0": 3}}]
    for repeat, emitted in enumerate(reports, start=1):
        side.pass_folder = side.folder.pass_folder("kernels", repeat)
        recording = ToolCollector(nsys, side.pass_folder, "cpu")
        (side.pass_folder / "nsys.nsys-rep").write_text("report")
        session._verify(side, recording, {"nvtx_emitted": emitted})
    side.folder.pass_done("kernels")
    entry = json.loads((tmp_path / "run" / "run.json").read_text())["passes"]["kernels"]
    assert (entry["status"], entry["verified"]["nvtx"]) == ("complete", {"emitted": 5, "recorded": 3})
    assert entry["verified"]["folders"]["kernels/1"]["lost"] == {}
    [warning] = session.warnings
    assert warning.startswith("pytorch, kernels/2: 2 of 3 NVTX ranges were lost ('step 0')")
    assert side.folder.record["unavailable"]["collector nsys"].startswith("kernels/2: 2 of 3")


# For real


def _record(folder):
    return json.loads((folder / "run.json").read_text())


@pytest.mark.slow
def test_a_run_under_nsys_has_every_range_and_no_environment(tmp_path, monkeypatch, capsys):
    if find.find("nsys") is None or find.usable(find.find("nsys")) is not None:
        pytest.skip("no Nsight Systems on this machine that works")
    monkeypatch.setenv("HF_TOKEN", "hush-hush")
    folder = tmp_path / "run"
    asked = ["run", "lenet", "-f", "pytorch", "-o", str(folder), "--device", "cpu", "--steps", "5", "--repeats", "1"]
    assert main.main([*asked, "--collector", "nsys"]) == 0
    assert "warning" not in capsys.readouterr().err
    entry = _record(folder)["passes"]["kernels"]
    assert (entry["status"], entry["collector"]["used"]) == ("complete", "nsys")
    assert _record(folder)["unavailable"] == {}
    ranges = [json.loads(line)["name"] for line in (folder / "kernels" / "1" / "ranges.jsonl").read_text().splitlines()]
    assert entry["verified"]["nvtx"] == {"emitted": len(ranges), "recorded": len(ranges)}
    with closing(sqlite3.connect(folder / "kernels" / "1" / "nsys.sqlite")) as database:
        texts = database.execute(
            "SELECT coalesce(text, (SELECT value FROM StringIds WHERE id = textId)) FROM NVTX_EVENTS WHERE eventType = 59"
        )
        assert sorted(text for (text,) in texts) == sorted(ranges)
        assert database.execute("SELECT count(*) FROM OSRT_API").fetchone()[0] > 0
    for path in folder.rglob("*"):
        assert path.is_dir() or b"hush-hush" not in path.read_bytes(), path
