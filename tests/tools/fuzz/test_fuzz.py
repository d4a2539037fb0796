"""The fuzzer itself, for as long as tests may take: `make fuzz` runs it for longer."""

import importlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.analysis.recordings.reading import read
from kernelscope.tracer.outside import answers
from tests.places import ROOT

CORPUS = ROOT.parent / "shared/corpus"
RUN = [sys.executable, str(Path(__file__).with_name("run.py"))]


def run(*arguments, timeout):
    done = subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 different failures" in done.stdout


@pytest.mark.long
def test_some_damaged_captures(tmp_path):
    """CI runs `make fuzz` for two minutes."""
    run("--cases", "150", "--small", "--seed", "1", "--seconds", "300", timeout=400)


@pytest.mark.slow
@pytest.mark.long
def test_some_seconds_of_damaged_captures():
    run("--seconds", "6", "--seed", "2", timeout=400)


def test_a_silent_loss_is_seen(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    counts = importlib.import_module("counts")
    path = tmp_path / "a.json"
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm",
        "pid": 0,
        "tid": 7,
        "ts": 1,
        "dur": 2,
        "args": {"device": 0, "stream": 7},
    }
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [kernel, {**kernel, "ts": 9}]}))
    trace = read(path)
    counts.check(path, "kineto", trace)
    path.write_text(
        json.dumps(
            {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [kernel, {**kernel, "ts": 9}, {**kernel, "ts": 19}]}
        )
    )
    with pytest.raises(AssertionError, match="2 of 3 kernels are read, and 0 things are told as lost"):
        counts.check(path, "kineto", trace)
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [kernel]}))
    with pytest.raises(AssertionError, match="2 kernels are read, 1 are there"):
        counts.check(path, "kineto", trace)
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [kernel, kernel]}))
    counts.check(path, "kineto", read(path))  # what is written twice counts once, and is told


@pytest.mark.long
def test_a_reader_that_fails_is_seen(tmp_path):
    """The fuzzer finds and keeps what an exception comes out of, even where a limit or a signal ends it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import kernelscope.analysis.formats as captures, os\n"
        "from kernelscope.analysis.formats.onednn import verbose\n"
        "calls = []\n"
        "def read(path):\n"
        "    calls.append(path)\n"
        "    if len(calls) == 2: os.abort()\n"
        "    if len(calls) == 3: return bytearray(1 << 34)\n"
        "    if len(calls) == 4: raise captures.EvidenceError('two\\nlines')\n"
        "    raise KeyError('planted')\n"
        "verbose.read = read\n"
    )
    kept = tmp_path / "kept"
    done = subprocess.run(
        [*RUN, "--cases", "6", "--format", "verbose", "--small", "--workers", "1", "--keep", str(kept)],
        capture_output=True, text=True, timeout=400, check=False, env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "KeyError" in done.stdout
    assert "planted" in done.stdout
    assert "died with status -6" in done.stdout
    report = (kept / "verbose.txt").read_text()
    assert "KeyError" in report
    assert any(entry.suffix != ".txt" for entry in kept.iterdir())


@pytest.fixture
def tools(monkeypatch):
    """Return a function that imports a module of the fuzzers."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module


def test_seeds_that_are_made_are_of_the_formats_that_they_are_made_for(tools, tmp_path):
    worker, makers = tools("worker"), tools("makers")
    known, made = worker.known_formats(), set()
    for name, content in makers.seeds():
        (tmp_path / "seed").write_bytes(content)
        form = name.split()[0].rstrip(",")
        assert worker.format_of(tmp_path / "seed", known) == form
        assert len(content) < 1 << 16
        read(tmp_path / "seed")
        made.add(form)
    assert {"horovod", "rocpd", "tfprof"} <= made


@pytest.mark.long
@pytest.mark.skipif(not CORPUS.is_dir(), reason="seeds of most formats: needs ../shared/corpus")
def test_every_format_has_a_seed(tools, tmp_path):
    worker, seeds = tools("worker"), tools("seeds")
    known = worker.known_formats()
    counted = {worker.format_of(Path(seed.path), known) for seed in seeds.prepare(tmp_path, 1 << 16)}
    assert seeds.unreached(known, counted) is None


def test_a_format_without_a_seed_is_an_error(tools, monkeypatch, tmp_path):
    seeds = tools("seeds")
    monkeypatch.setattr(seeds, "CORPUS", tmp_path)
    assert seeds.unreached(["a", "b"], {"a", "b"}) is None
    assert "nothing of them can be tried: b" in seeds.unreached(["a", "b"], {"a"})
    assert seeds.unreached(["a", "b"], {"a"}, "a") is None
    monkeypatch.setattr(seeds, "CORPUS", tmp_path / "none")
    assert seeds.unreached(["a", "b"], {"a"}) is None
    assert seeds.unreached(["a", "b"], {"a"}, "b") == "b: no seed, so that nothing of it can be tried"


@pytest.mark.long
def test_a_format_that_is_asked_for_and_has_no_seed_fails():
    done = subprocess.run(
        [*RUN, "--cases", "1", "--small", "--format", "none-such"], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode != 0
    assert "none-such: no seed, so that nothing of it can be tried" in done.stderr


def outcome(line):
    try:
        return answers.parse(line), ""
    except answers.NoAnswerError as error:
        return {}, str(error)


def test_changed_lines_of_a_child(tools):
    """Whatever a line is, it is an answer, or refused in one line."""
    mutations, makers, jsons = tools("mutations"), tools("makers"), tools("jsons")
    chance, refused = random.Random(80), 0
    for number in range(4000):
        line = json.dumps(makers.ANSWERS[number % len(makers.ANSWERS)]).encode()
        line = chance.choice((*mutations.ANY, *mutations.TEXT, jsons.change_values, jsons.change_text))(chance, line)
        answer, said = outcome(line)
        assert isinstance(answer.get("event"), str) or (said and said.isprintable())
        refused += bool(said)
    assert 1000 < refused < 4000
