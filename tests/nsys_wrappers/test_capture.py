"""What a run under nsys leaves is finished or named, and the program is not disturbed."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kernelscope.nsys_wrappers import capture, export, find, nvprof, privacy
from kernelscope.nsys_wrappers.command import CaptureError
from kernelscope.nsys_wrappers.find import Tool
from kernelscope.nsys_wrappers.options import NsysOptions, NvprofOptions, NvtxRange
from kernelscope.nsys_wrappers.verify import verify

FAKE = """#!{python}
import pathlib, sys
words = sys.argv[1:]
if "--version" in words:
    print("NVIDIA Nsight Systems version 2024.6.2.225-abc")
elif words[0] == "export" and "parquetdir" in words:
    folder = pathlib.Path(words[words.index("--output") + 1])
    folder.mkdir()
    (folder / "StringIds.parquet").touch()
elif words[0] == "export":
    pathlib.Path(words[words.index("--output") + 1]).write_text("exported " + pathlib.Path(words[-1]).read_text())
"""
IMPORTER = """#!{python}
import pathlib, sys
stream = pathlib.Path(sys.argv[2]).read_text()
if stream == "cut":
    print("Qdstrm file is incomplete or invalid. Please ensure that the CLI ran to completion.")
else:
    pathlib.Path(sys.argv[4]).write_text("report of " + stream)
"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(python=sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture
def fake(tmp_path):
    path = program(tmp_path / "n/bin/nsys", FAKE)
    program(tmp_path / "n/host-linux-x64/QdstrmImporter", IMPORTER)
    return Tool("nsys", path, "2024.6.2.225", "named")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def temporary(folder):
    return Path(json.loads((folder / "collector.json").read_text())["temporary"])


def test_a_report_is_exported_beside_it(fake, folder):
    prefix = capture.prepare(fake, folder, NsysOptions(folder / "nsys"))
    own = temporary(folder)
    assert prefix[:5] == ["/usr/bin/env", f"TMPDIR={own}", str(fake.path), "profile", f"--output={folder}/nsys"]
    assert f"--env-var=TMPDIR={tempfile.gettempdir()}" in prefix
    note = json.loads((folder / "collector.json").read_text())
    assert note["command"] == [str(fake.path), "profile", "--output=nsys", *prefix[5:]]
    (folder / "nsys.nsys-rep").write_text("all")
    found = capture.finish(fake, folder)
    assert found == capture.Capture("2024.6.2.225", folder / "nsys.nsys-rep", folder / "nsys.sqlite")
    assert found.exported.read_text() == "exported all"
    assert not own.exists()
    assert sorted(os.listdir(folder)) == ["collector.json", "nsys.nsys-rep", "nsys.sqlite"]
    assert capture.finish(fake, folder) == found  # again, from what is there


@pytest.mark.parametrize("place", ["folder", "temporary"])
def test_a_left_over_stream_is_imported(fake, folder, place):
    capture.prepare(fake, folder, NsysOptions(folder / "nsys"))
    stream = folder / "nsys.qdstrm" if place == "folder" else temporary(folder) / "nsys-report-1a2b.qdstrm"
    stream.write_text("stream")
    found = capture.finish(fake, folder)
    assert found.exported.read_text() == "exported report of stream"
    assert (found.failures, (folder / "nsys.qdstrm").exists()) == ((), False)


def test_what_cannot_be_finished_is_named(fake, folder):
    capture.prepare(fake, folder, NsysOptions(folder / "nsys"))
    (folder / "nsys.qdstrm").write_text("cut")
    [told] = capture.finish(fake, folder).failures
    assert told.startswith(f"{folder}/nsys.qdstrm: QdstrmImporter of nsys 2024.6.2.225 did not read it: ")
    assert told.endswith("nothing can be recovered; record again")
    (fake.path.parent.parent / "host-linux-x64/QdstrmImporter").unlink()
    [told] = capture.finish(fake, folder).failures
    assert "has no QdstrmImporter" in told
    assert "run QdstrmImporter -i nsys.qdstrm from a complete installation of nsys 2024.6.2.225 or later" in told
    (folder / "nsys.qdstrm").unlink()
    [told] = capture.finish(fake, folder).failures
    assert "left no report" in told


def test_a_range_that_never_began(fake, folder):
    capture.prepare(fake, folder, NsysOptions(folder / "nsys", capture=NvtxRange("step 3")))
    assert capture.finish(fake, folder).failures == (
        "nsys 2024.6.2.225 recorded nothing: the range 'step 3' never began; check that the program opens it",
    )


def test_nothing_is_overwritten(fake, folder):
    (folder / "nsys.qdstrm").write_text("older")
    with pytest.raises(CaptureError, match="of this name exists"):
        capture.prepare(fake, folder, NsysOptions(folder / "nsys"))
    before = len(list(Path(tempfile.gettempdir()).glob("kernelscope-nsys-*")))
    with pytest.raises(CaptureError, match="nsys cannot trace"):
        capture.prepare(fake, folder, NsysOptions(folder / "other", traces=("a b",)))
    assert len(list(Path(tempfile.gettempdir()).glob("kernelscope-nsys-*"))) == before
    assert os.listdir(folder) == ["nsys.qdstrm"]


@pytest.mark.parametrize(
    "changed", [{"temporary": "/home/kernelscope-nsys-x"}, {"temporary": "/tmp/other"}, {"output": "../x"}, {"more": 1}, None]
)
def test_a_note_that_others_wrote_removes_nothing(fake, folder, changed):
    capture.prepare(fake, folder, NsysOptions(folder / "nsys"))
    own = temporary(folder)
    note = json.loads((folder / "collector.json").read_text())
    (folder / "collector.json").write_text(json.dumps(note | changed) if changed else "no JSON")
    [told] = capture.finish(fake, folder).failures
    assert "cannot be read" in told
    assert capture.stop(folder) == 0
    assert own.is_dir()
    own.rmdir()


def test_parquet_where_the_release_has_it(fake, folder):
    (folder / "nsys.nsys-rep").write_text("all")
    made = export.export_report(fake, folder / "nsys.nsys-rep", folder, "parquetdir")
    assert [path.name for path in made.iterdir()] == ["StringIds.parquet"]
    older = Tool("nsys", fake.path, "2022.4.2.1", "named")
    with pytest.raises(export.ExportError, match=r"cannot export Parquet; export SQLite, or use nsys 2023.4 or later"):
        export.export_report(older, folder / "nsys.nsys-rep", folder, "parquetdir")


def test_nvprof_leaves_a_database_or_says_why_not(folder):
    tool = Tool("nvprof", Path("/cuda/bin/nvprof"), "11.8.87", "PATH")
    capture.prepare(tool, folder, NvprofOptions(folder / "nvprof.sqlite", folder / "nvprof.log"))
    (folder / "nvprof.log").write_text("======== Warning: CUDA device error, GPU profiling skipped\n")
    assert str(folder) not in (folder / "collector.json").read_text()
    found = capture.finish(tool, folder)
    assert (found.report, found.exported) == (None, None)
    assert found.failures[0].startswith("nvprof found no working GPU")
    (folder / "nvprof.sqlite").write_text("database")
    assert capture.finish(tool, folder).exported == folder / "nvprof.sqlite"


def test_messages_of_nvprof():
    log = """==77== NVPROF is profiling process 77, command: /home/me/secret
==77== Warning: 12 records have invalid timestamps due to insufficient device buffer space. You can configure the buffer space
======== Error: Application returned non-zero code 7
"""
    assert nvprof.failures(log) == [
        "nvprof lost 12 records: its device buffer was full; record fewer steps",
        "the program under nvprof ended with exit status 7",
    ]
    assert nvprof.failures("==1== Profiling result") == []
    assert [nvprof.refusal(capability) is None for capability in ("7.0", "7.5", "8.0", "9.0", "12.1", None, "?")] == [
        True, True, False, False, False, True, True
    ]  # fmt: skip
    assert "--collector nsys" in nvprof.refusal("8.0")


SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123"
CHILD = """
import ctypes, json, os, sys, tempfile, nvtx
commands, answers, library, count = int(sys.argv[1]), int(sys.argv[2]), ctypes.CDLL(sys.argv[3]), int(sys.argv[4])
library.nvtxRangePushA.argtypes = [ctypes.c_char_p]
said = {"pid": os.getpid(), "tmp": tempfile.gettempdir(), "preload": os.environ["LD_PRELOAD"]}
os.write(answers, json.dumps(said).encode() + b"\\n")
assert os.read(commands, 2) == b"go"
for step in range(count):
    library.nvtxRangePushA(b"step %d" % (step % 2))
    with nvtx.annotate("of the package"):
        pass
    library.nvtxRangePop()
os.write(answers, b"done\\n")
os.read(commands, 2)
sys.exit(7)
"""


@pytest.fixture
def real():
    tool, library = find.find("nsys"), find.nvtx_library()
    if tool is None or library is None:
        pytest.skip("recording needs Nsight Systems and NVTX's library")
    return tool, library


def start(real, folder, count, options=None):
    """Start a child under nsys; return it, what it said of itself, and the pipes to it."""
    for _ in range(2):  # once in dozens of times nsys 2022.4 starts its agent, and the program never
        child, pipes = launched(real, folder, count, options)
        if answered(pipes):
            break
        capture.stop(folder)
        child.wait(60)
        [os.close(pipe) for pipe in pipes]
    else:
        pytest.fail("nsys did not start the program, twice")
    said = json.loads(os.read(pipes[1], 1 << 10))
    os.write(pipes[0], b"go")
    assert answered(pipes)
    assert os.read(pipes[1], 5) == b"done\n"
    return child, said, pipes


def launched(real, folder, count, options):
    """Start a child under nsys; return it and the pipes to it."""
    tool, library = real
    prefix = capture.prepare(tool, folder, options or NsysOptions(folder / "nsys", traces=("nvtx",)))
    read, commands = os.pipe()
    answers, written = os.pipe()
    child = subprocess.Popen(
        [*prefix, sys.executable, "-c", CHILD, str(read), str(written), library, str(count)],
        env={**os.environ, "LD_PRELOAD": "libm.so.6", "A_TOKEN": SECRET}, pass_fds=(read, written), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(read)
    os.close(written)
    return child, (commands, answers)


def answered(pipes):
    """Return whether the child says something within a minute."""
    return bool(select.select([pipes[1]], [], [], 60)[0])


@pytest.mark.slow
def test_a_real_capture_holds_what_was_emitted_and_nsys_keeps_the_pipes(real, folder):
    child, said, pipes = start(real, folder, 6)
    assert said["pid"] != child.pid
    assert {said["pid"], child.pid} <= set(capture.processes(folder))
    assert said["tmp"] == tempfile.gettempdir()  # what the program writes there outlives the capture
    assert "libm.so.6" in said["preload"]
    os.write(pipes[0], b"ok")
    assert child.wait(60) == 7  # the program's own exit status
    found = capture.finish(real[0], folder)
    assert found.failures == ()
    verified = verify(found.exported, {"step 0": 3, "step 1": 3})
    assert (verified.emitted, verified.recorded, verified.missing) == (6, 6, ())
    assert SECRET.encode() in found.exported.read_bytes()  # nsys writes the environment down
    assert privacy.without_environments(found.exported) > 0
    assert SECRET.encode() not in found.exported.read_bytes()
    assert verify(found.exported, {"step 0": 3, "step 1": 3}, version=found.version) == verified
    if real[0].release < (2024,):
        dummy = verify(found.exported, {"of the package": 6}, version=found.version)
        assert (dummy.recorded, dummy.lost) == (0, {"of the package": 6})
        assert "install nvtx 0.2.11 or a newer nsys" in dummy.missing[0]
    assert capture.processes(folder) == []
    [os.close(pipe) for pipe in pipes]


@pytest.mark.slow
def test_a_capture_range_begins_at_text_that_is_not_registered(real, folder):
    options = NsysOptions(folder / "nsys", traces=("nvtx",), capture=NvtxRange("step 1"))
    child, _, pipes = start(real, folder, 4, options)
    os.write(pipes[0], b"ok")
    child.wait(60)
    found = capture.finish(real[0], folder)
    assert found.failures == ()
    verified = verify(found.exported, {"step 0": 2, "step 1": 2})
    assert verified.lost == {"step 0": 2, "step 1": 1}  # it ends with the range
    [os.close(pipe) for pipe in pipes]


@pytest.mark.slow
def test_an_nsys_that_is_killed_leaves_what_it_had(real, folder):
    child, said, pipes = start(real, folder, 6)
    os.killpg(child.pid, signal.SIGKILL)  # nsys, its launcher and what passes output on; neither the agent nor the program
    child.wait(60)
    os.write(pipes[0], b"ok")  # the program ends by itself: one that is killed too loses what its NVTX has not passed on
    while said["pid"] in capture.processes(folder):
        time.sleep(0.05)
    found = capture.finish(real[0], folder)
    assert [line for line in found.failures if "was killed, and its agent wrote what it had" in line]
    assert verify(found.exported, {"step 0": 3, "step 1": 3}).recorded == 6
    assert capture.processes(folder) == []
    [os.close(pipe) for pipe in pipes]


@pytest.mark.slow
def test_ending_everything_is_named_and_leaves_no_process(real, folder):
    child, said, pipes = start(real, folder, 2)
    own = temporary(folder)
    assert capture.stop(folder) >= 3
    child.wait(60)
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{said['pid']}/environ") and time.monotonic() < deadline and capture.processes(folder):
        time.sleep(0.05)
    assert capture.processes(folder) == []
    [told] = capture.finish(real[0], folder).failures
    assert "record again" in told or "left no report" in told
    assert not own.exists()
    [os.close(pipe) for pipe in pipes]
