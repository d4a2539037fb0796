"""`kernelscope device` and `kernelscope roofline` on a capture made here and on a run folder."""

import csv
import io
import json

import pytest

from kernelscope.cli import main, roofline
from kernelscope.tracer.outside import ceilings, machine_cache

CEILINGS = {
    "schema": "kernelscope/ceilings/1", "source": "vendor", "device": "cuda", "framework": None, "threads": None,
    "copies": [{"bytes": 1 << 30, "bytes_per_s": 800e9}], "products": [{"dtype": "f32", "flops_per_s": 15e12}],
}  # fmt: skip


def event(name, category, start, length, thread=1, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": thread, "ts": start, "dur": length, "args": arguments}


@pytest.fixture
def capture(tmp_path):
    """Two products of 512 x 512 x 512 on a V100, each 50 us, and a pinned copy of 1 MiB in 100 us."""
    device = {"id": 0, "name": "Tesla V100", "computeMajor": 7, "computeMinor": 0, "numSms": 80, "totalGlobalMem": 1 << 34}
    launch = {
        "grid": [8, 4, 1],
        "block": [256, 1, 1],
        "registers per thread": 57,
        "shared memory": 16384,
        "device": 0,
        "stream": 7,
    }
    events = []
    for number in range(2):
        at = 1000 * number
        shapes = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"], "External id": number}
        events.append(event("aten::mm", "cpu_op", at, 30, **shapes, **{"Input Strides": [[512, 1], [1, 512]]}))
        events.append(event("cudaLaunchKernel", "cuda_runtime", at + 5, 5, correlation=number + 1))
        events.append(event("volta_sgemm_128x64_tn", "kernel", at + 40, 50, 7, correlation=number + 1, **launch))
    copy = {"correlation": 9, "device": 0, "stream": 8, "bytes": 1 << 20}
    events.append(event("cudaMemcpyAsync", "cuda_runtime", 2000, 5, correlation=9))
    events.append(event("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 2010, 100, 8, **copy))
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}))
    return file


def test_all_tables(capture, capsys):
    assert main.main(["device", str(capture)]) == 0
    out = capsys.readouterr().out
    assert "50.0%" in out, "4 blocks of 8 warps"
    assert "registers" in out
    assert "pinned to device" in out
    assert "Peak memory: no memory was recorded; PyTorch's profiler records it with profile_memory=True" in out


def test_json_and_csv(capture, capsys):
    assert main.main(["device", str(capture), "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == "kernelscope/device/1"
    (row,) = content["tables"]["occupancy"]
    assert (row["occupancy"], row["limiter"], row["blocks"], row["waves"], row["duration_ns"]) == (
        0.5,
        "registers",
        4,
        0.1,
        100_000,
    )
    assert set(content["unavailable"]) == {"metrics", "peak", "memory"}
    assert main.main(["device", str(capture), "--format", "csv", "--table", "copies"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(row["gbytes_per_s"]) == pytest.approx((1 << 20) / 100e-6 / 1e9)
    assert main.main(["device", str(capture), "--format", "csv"]) == 2
    assert "--table" in capsys.readouterr().err


def test_roofline_of_a_capture(capture, tmp_path, capsys):
    named = tmp_path / "ceilings.json"
    named.write_text(json.dumps(CEILINGS))
    figure = tmp_path / "roofline.svg"
    asked = ["roofline", str(capture), "--ceilings", str(named), "--format", "json", "--figure", str(figure)]
    assert main.main(asked) == 0
    content = json.loads(capsys.readouterr().out)
    (row,) = content["rows"]
    assert (row["m"], row["n"], row["k"], row["transpose"]) == (512, 512, 512, "NT")
    assert row["flops"] == 2 * 2 * 512**3
    assert row["gflops_per_s"] == pytest.approx(2 * 512**3 / 50e-6 / 1e9)
    assert row["product_ceiling"] == "f32 product, vendor's number"
    assert row["of_product"] == pytest.approx(2 * 512**3 / 50e-6 / 15e12)
    assert "vendor" in figure.read_text()
    for form in ("table", "markdown", "csv"):
        assert main.main(["roofline", str(capture), "--format", form]) == 0
        assert "volta_sgemm" in capsys.readouterr().out.replace("\\_", "_")  # Markdown marks underscores


def test_ceilings_of_a_run_are_the_best_that_this_machine_has_reached_since(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path))
    about = dict.fromkeys(("framework", "version", "device", "threads", "machine", "gpu"))
    record = {**CEILINGS, "source": "measured", **about, "measured": "2026-11-20", "waited": 0.5, "others": 0.1}
    assert roofline.best_known(record) == record, "nothing is kept here"
    later = {
        **record,
        "copies": [{"bytes": 1 << 30, "bytes_per_s": 900e9}],
        "measured": "2026-11-22",
        "waited": 0.0,
        "others": 0.0,
    }
    machine_cache.write(ceilings._file(about), later)
    best = roofline.best_known(record)
    assert (best["copies"][0]["bytes_per_s"], best["products"][0]["flops_per_s"]) == (900e9, 15e12)
    assert (best["copies"][0]["measured"], best["products"][0]["measured"]) == ("2026-11-22", "2026-11-20")
    assert (best["measured"], best["waited"]) == ("2026-11-22", 0.0)
    assert roofline.best_known({**record, "source": "vendor"})["copies"][0]["bytes_per_s"] == 800e9
    assert roofline.best_known({**record, "copies": [3]}) == {**record, "copies": [3]}


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        (["roofline", "{capture}", "--measure"], 2, "needs a run folder"),
        (["roofline", "{capture}", "--ceilings", "{capture}"], 3, "no ceilings of the schema"),
        (["roofline", "{capture}", "--ceilings", "{capture}", "--measure"], 2, "give only one of them"),
        (["roofline", "{capture}", "--ceilings", "missing.json"], 3, "missing.json: cannot be read"),
        (["roofline", "{capture}", "--figure", "no-such-folder/x.svg"], 3, "cannot be drawn"),
        (["roofline", "{capture}", "--figure", "x.nonsense"], 3, "cannot be drawn"),
        (["device", "missing"], 3, "missing"),
    ],
)
def test_faults_are_one_line(asked, status, said, capture, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main.main([part.format(capture=capture) for part in asked]) == status
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("kernelscope: error: ")
    assert said in error
