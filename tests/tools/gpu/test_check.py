"""The checks' own rules: outcomes, counting by SQL, the record, recordings from elsewhere; a machine without a GPU for real."""

import gzip
import importlib
import importlib.util
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelscope.tracer.outside import environments, gpu

FOLDER = Path(__file__).parent
DATA = FOLDER.parents[1] / "data"
MODULES = ("outcomes", "place", "counted", "recordings", "power", "analyses", "inside", "faults", "refusals", "records", "check")


@pytest.fixture(scope="module")
def gpu_checks():
    """The scripts' modules by name; they stand beside each other, as scripts do."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in MODULES:
            sys.modules.pop(name, None)


def _perform(gpu_checks, function, limit_s=10.0):
    outcomes = gpu_checks["outcomes"]
    return outcomes.perform(outcomes.Check("a check", "a thing", function, limit_s))


def test_every_way_to_end_is_an_outcome(gpu_checks):
    outcomes = gpu_checks["outcomes"]

    def well(found):
        found.measured["kernels"] = 3
        found.expect(True, "not said")

    def wrong(found):
        found.expect(False, "two kernels instead of three")
        raise ValueError("and a fault")

    def nothing(found):
        raise outcomes.NotRun("no GPU")

    done = _perform(gpu_checks, well)
    assert (done.outcome, done.measured, done.reasons) == ("passed", {"kernels": 3}, [])
    done = _perform(gpu_checks, wrong)
    assert (done.outcome, done.reasons) == ("failed", ["two kernels instead of three", "ValueError: and a fault"])
    done = _perform(gpu_checks, nothing)
    assert (done.outcome, done.reasons) == ("not run", ["no GPU"])


def test_a_check_that_does_not_end_is_ended_with_its_command(gpu_checks, tmp_path):
    place = gpu_checks["place"].Place(tmp_path, "cpu", (), "none", [])
    program = f"import time, pathlib; pathlib.Path({str(tmp_path / 'begun')!r}).touch(); time.sleep(600)"

    def endless(found):
        found.expect(False, "seen before")
        place.command([sys.executable, "-c", program])

    began = time.monotonic()
    done = _perform(gpu_checks, endless, limit_s=3.0)
    assert (done.outcome, done.reasons) == ("failed", ["seen before", "no end within 3 s"])
    assert time.monotonic() - began < 60
    alive = [process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(process.info["cmdline"] or [])]
    assert not alive


def test_checks_for_a_gpu_say_that_there_is_none(gpu_checks, tmp_path):
    place = gpu_checks["place"].Place(tmp_path, "cpu", (), "no driver", [])
    for check in gpu_checks["power"].checks(place):
        done = gpu_checks["outcomes"].perform(check)
        assert (done.outcome, done.reasons) == ("not run", ["no GPU (no driver)"])


# --- counting ---------------------------------------------------------------------------------------------------------------


def _nsys(path, texts):
    """An export with two kernels named a (10 and 20 ns), one named b (5 ns), and ranges step 0, step 1; texts: their column."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "a"), (2, "b"), (3, "step 0"), (4, "step 1")])
        database.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, demangledName INTEGER)')
        database.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?)", [(110, 120, 1), (195, 215, 1), (900, 905, 2)]
        )
        database.execute(f'CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER, {texts})')
        rows = [(100, 200, 59, 3), (300, 400, 59, 4)]
        if texts.startswith("text "):
            rows = [(start, end, kind, {3: "step 0", 4: "step 1"}[name]) for start, end, kind, name in rows]
        database.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?)", rows)
    return path


@pytest.mark.parametrize("texts", ["textId INTEGER", "text TEXT"])
def test_kernels_of_an_export_are_counted_by_sql(gpu_checks, tmp_path, texts):
    counted = gpu_checks["counted"]
    path = _nsys(tmp_path / "nsys.sqlite", texts)
    assert counted.groups(path) == [(1, 5), (2, 30)]
    assert counted.in_steps(path, [0, 1], 0) == (2, 30)
    assert counted.in_steps(path, [1], 0) == (0, 0)
    assert counted.in_steps(path, [0], -10) == (1, 10), "the second one begins 5 ns before the step's end"
    assert counted.in_steps(path, [1], 600) == (3, 35)


def test_kernels_of_other_files_are_counted_without_our_readers(gpu_checks, tmp_path):
    counted = gpu_checks["counted"]
    assert counted.groups(DATA / "cupti" / "cupti.records") == [(2, 5000)], "both have one name"
    events = [
        {"ph": "X", "cat": cat, "name": name, "dur": dur}
        for cat, name, dur in (("kernel", "k", 1.5), ("kernel", "k", 2), ("cpu_op", "o", 9))
    ]
    path = tmp_path / "operators.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    assert counted.groups(path) == [(2, 3500)]
    assert counted.groups(tmp_path / "host.xplane.pb") is None


def test_a_plain_integral_of_power(gpu_checks, tmp_path):
    """100 W rising to 300 W over 2 s, of which the second half is measured: 200 to 300 W, 250 J in 5 steps, 50 J each."""
    folder = tmp_path / "energy" / "1"
    folder.mkdir(parents=True)
    times = range(0, 2_000_000_001, 100_000_000)
    rows = [
        {"time_ns": at, "core": None, "device": "cuda:0", "metric": "gpu_power_w", "value": 100 + 100 * at / 1e9} for at in times
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "samples.parquet")
    (folder / "windows.jsonl").write_text(
        json.dumps({"kind": "window", "window": 3, "start_ns": 0, "end_ns": 2_000_000_000}) + "\n"
    )
    steps = [
        {
            "step": n,
            "window": 3,
            "warmup": False,
            "thread": 1,
            "start_ns": 10**9 + n * 2 * 10**8,
            "end_ns": 10**9 + (n + 1) * 2 * 10**8,
        }
        for n in range(5)
    ]
    (folder / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    record = {
        "schema": "kernelscope/run/1",
        "framework": "pytorch",
        "options": {"batch": 64},
        "passes": {"energy": {"folders": ["energy/1"]}},
    }
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert gpu_checks["power"].crude_microjoules(tmp_path) == pytest.approx({"cuda:0": 50e6})


def test_shares_above_a_ceiling_fail(gpu_checks, tmp_path):
    row = {"of_product": 0.5, "of_copy": None, "reason": None, "name": "gemm", "duration_ns": 60}
    above = {
        **row,
        "of_product": None,
        "reason": "130% of the product: not possible; the time is too short",
        "name": "odd",
        "duration_ns": 40,
    }
    result = {"rows": [row, above], "kernel_ns": 100, "known_ns": 100, "ceilings": {}}
    place = gpu_checks["place"].Place(tmp_path, "cuda", (), None, [])
    place.command = lambda *_: gpu_checks["place"].Done(0, json.dumps(result), "")
    done = _perform(gpu_checks, partial(gpu_checks["analyses"].roofline, place=place, folder=tmp_path))
    assert done.outcome == "failed"
    assert done.reasons == ["odd (40.0% of kernel time): 130% of the product: not possible; the time is too short"]
    assert done.measured["largest share"] == 0.5


# --- the record -------------------------------------------------------------------------------------------------------------


def test_the_record_has_every_outcome_and_no_names(gpu_checks, tmp_path, monkeypatch):
    records, outcomes = gpu_checks["records"], gpu_checks["outcomes"]
    monkeypatch.setattr(records.socket, "gethostname", lambda: "thatbox")
    monkeypatch.setattr(records.getpass, "getuser", lambda: "somebody")
    home = str(Path.home())
    record = records.Record(
        "2026-01-02", "NVIDIA H100 80GB HBM3", {"machine": {"GPU": "one | two"}}, folders=(tmp_path / "work",)
    )
    record.outcomes = [
        outcomes.Outcome(
            "record", "pytorch, nsys", "passed", {"kernels": 42, "where": f"{home}/x {tmp_path}/work/runs"}, [], 3.0
        ),
        outcomes.Outcome("energy", "pytorch", "failed", {}, ["no counter on thatbox of somebody, <b>"], 1.0),
        outcomes.Outcome("record", "mxnet, cupti", "not run", {}, ["no build"], 0.0),
        outcomes.Outcome("record", "cntk, cupti", "not run", {}, ["no build"], 0.0),
    ]
    path = record.write(tmp_path / "records")
    assert path.name == "2026-01-02-nvidia-h100-80gb-hbm3.md"
    text = path.read_text() + path.with_suffix(".json").read_text()
    for name in (home + "/", "thatbox", "somebody", str(tmp_path)):
        assert name not in text
    read = path.read_text()
    assert "1 passed, 1 failed, 2 not run" in read
    assert "| record | pytorch, nsys | 3 | kernels: 42; where: ~/x RUNS/runs |" in read
    assert "| energy | pytorch | no counter on HOST of USER, &lt;b> | 1 |  |" in read
    assert "- record: mxnet, cupti; cntk, cupti" in read
    assert "one \\| two" in read
    assert len(json.loads(path.with_suffix(".json").read_text())["results"]) == 4


# --- from elsewhere ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def brought(tmp_path):
    """What an agent could have left on a machine with a GPU: its outcomes, and one recording by CUPTI."""
    path = FOLDER.parents[1] / "analysis" / "device_evidence" / "conftest.py"
    spec = importlib.util.spec_from_file_location("device_evidence_runs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path / "left"
    ranges = [(77, 5_000_000_500, 5_000_004_000, "layer", "conv1", "conv1", "forward")]
    steps = [(5_000_000_000, 5_000_030_000, False, 77)]
    kernels = module._write(folder / "runs" / "pytorch-cupti", steps, ranges, 0, 10**18, collector="cupti")
    shutil.copy(DATA / "cupti" / "cupti.records", kernels)
    gpus = [{"name": "NVIDIA H100", "compute_capability": "9.0"}]
    nvml = {"unavailable": None, "driver": "580.1", "cuda": "13.0", "gpus": gpus}
    outcomes = [
        ("NVML fields", "agent", "passed", {"driver": "580.1"}, []),
        ("record", "pytorch, cupti", "passed", {"folder": "runs/pytorch-cupti"}, []),
        ("record", "jax, cupti", "not run", {}, ["no module jax"]),
    ]
    keys = ("check", "subject", "outcome", "measured", "reasons")
    content = {
        "schema": "kernelscope/gpu-check/1", "created": "2026-01-02T03:04:05+00:00", "versions": {},
        "machine": {"processor": "a processor", "system": "Linux 6.1.2-of-somebody", "nvml": nvml},
        "results": [{**dict(zip(keys, row, strict=True)), "seconds": 1.0} for row in outcomes],
    }  # fmt: skip
    (folder / "check.json").write_text(json.dumps(content))
    return folder


def test_what_an_agent_left_becomes_a_record_with_its_recordings_judged(gpu_checks, brought, tmp_path, capsys):
    status = gpu_checks["check"].main(
        ["--from", str(brought), "--output", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    )
    record = json.loads((tmp_path / "out" / "2026-01-02-nvidia-h100.json").read_text())
    found = {(row["check"], row["subject"]): row for row in record["results"]}
    assert record["about"]["machine"]["driver"] == "580.1"
    assert record["about"]["machine"]["system"] == "Linux 6.1.2"
    assert found["NVML fields", "agent"]["outcome"] == "passed"
    assert found["record", "jax, cupti"]["reasons"] == ["no module jax"]
    kernels = found["kernels recorded", "pytorch, cupti"]
    assert (kernels["measured"]["kernels on the GPU"], kernels["measured"]["busy_ns"]) == (2, 5000)
    assert kernels["outcome"] == "failed", "of 5000 ns of kernels the layer's 4000 are known"
    assert kernels["reasons"] == ["80.0% of the kernels' time is in known layers, below 95%"]
    sums = found["sums as in the file", "pytorch, cupti"]
    assert (sums["outcome"], sums["measured"]["duration_ns"]) == ("passed", 5000)
    assert found["NVTX ranges arrived", "pytorch, cupti"]["outcome"] == "not run"
    rows = found["rows add up, layers covered", "pytorch, cupti"]
    assert rows["outcome"] == "passed"
    assert (rows["measured"]["step_ns"], rows["measured"]["coverage"]) == (30_000, 0.25)
    assert found["collectors agree", "pytorch"]["reasons"] == ["only cupti recorded it"]
    assert status == 1
    assert "record: " in capsys.readouterr().out


def test_a_folder_of_something_else_is_refused_in_one_line(gpu_checks, tmp_path, capsys):
    (tmp_path / "check.json").write_text('{"schema": "another/1"}')
    assert gpu_checks["check"].main(["--from", str(tmp_path), "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# --- for real ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.long
def test_a_machine_without_a_gpu(tmp_path):
    if gpu.find().devices:
        pytest.skip("this machine has a GPU")
    environments.resolve("pytorch")
    options = ["--frameworks", "pytorch", "--steps", "5", "--output", tmp_path / "out", "--work", tmp_path / "work"]
    command = [sys.executable, FOLDER / "check.py", *options, "--only", "pytorch|NVML|energy|reason|doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tmp_path / "out").glob("*-no-gpu.json")
    found = {(row["check"], row["subject"]): row for row in json.loads(path.read_text())["results"]}
    assert found["record", "pytorch, nsys"]["outcome"] in ("passed", "not run")  # where no nsys is installed
    if found["record", "pytorch, nsys"]["outcome"] == "passed":
        nvtx = found["NVTX ranges arrived", "pytorch, nsys"]["measured"]
        assert nvtx["emitted"] == nvtx["recorded"] > 0
    assert found["record", "pytorch, cupti"]["reasons"][0].startswith("no GPU (NVML")
    assert found["NVML fields", "all GPUs"]["outcome"] == "not run"
    refused = found["refused: --device cuda", "pytorch"]
    assert (refused["outcome"], refused["measured"]["exit status"]) == ("passed", 2)
    assert refused["measured"]["message"].startswith("--device cuda: no GPU to run on (NVML")
