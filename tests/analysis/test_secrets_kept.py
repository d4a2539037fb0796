"""What looks like a secret in a capture is in nothing that is kept or shown of it, and in all that --keep-secrets keeps."""

from __future__ import annotations

import gzip
import json
import zipfile

import pyarrow.parquet as pq
import pytest

from tests import forked

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PASSWORD = "Hunter2-xyz99"
KEY = "hf_" + "Q1w2E3r4T5y6U7i8O9p0A1s2D3f4G5h6J7"
OF_REGISTRY, OF_KAGGLE, INNER = "am9lOmFiY2RlZmdoaWprbG1ub3A=", "17b8c0d9e2f34a5617b8c0d9e2f34a56", "kL9-trombone-77"
PLANTED = tuple(map(str.encode, (TOKEN, PASSWORD, KEY, OF_REGISTRY, OF_KAGGLE, INNER)))


@pytest.fixture
def capture(tmp_path):
    """A trace of torch.profiler with a token in a range's and a kernel's name, and others in arguments and in metadata."""
    events = []

    def event(name, category, start, length, thread, **arguments):
        events.append(
            {"ph": "X", "name": name, "cat": category, "ts": start, "dur": length, "pid": 1, "tid": thread, "args": arguments}
        )

    event("ProfilerStep#1", "user_annotation", 0, 1000, 1)
    event(f"step {TOKEN}", "user_annotation", 10, 900, 1)
    event(
        "aten::mm", "cpu_op", 20, 50, 1, **{"Input Dims": [[2, 2], [2, 2]], "Concrete Inputs": [f"--password={PASSWORD}", TOKEN]}
    )
    texts = [{"auths": {"https://x.y/": {"auth": OF_REGISTRY}}}, {"username": "joe", "key": OF_KAGGLE}]
    within = json.dumps({"config": json.dumps({"config": json.dumps({"password": INNER})})})
    event("aten::add", "cpu_op", 22, 5, 1, **{"Concrete Inputs": [*map(json.dumps, texts), within]})
    event("cudaLaunchKernel", "cuda_runtime", 30, 10, 1, correlation=5)
    event(f"gemm {TOKEN} kernel", "kernel", 60, 100, 7, correlation=5, device=0, stream=7)
    path = tmp_path / "secret.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events, "metadata": {"env": {"HF_TOKEN": KEY}}}))
    return path


def run(*words):
    done = forked.run(*map(str, words), timeout=120)
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).encode()


def content(path):
    """Return all that a file or folder holds, unpacked."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    result = b""
    for file in files:
        data = file.read_bytes()
        result += data
        if data.startswith(b"\x1f\x8b"):
            result += gzip.decompress(data)
        elif data.startswith(b"PK"):
            with zipfile.ZipFile(file) as packed:
                result += b"".join(packed.read(name) for name in packed.namelist())
        elif data.startswith(b"PAR1"):
            result += str(pq.read_table(file).to_pylist()).encode()
    return result


@pytest.mark.parametrize("form", ["perfetto", "chrome", "csv", "parquet", "xlsx", "markdown"])
def test_exports_hold_none(capture, tmp_path, form):
    said = run("export", capture, "--format", form, "-o", tmp_path / "out")
    assert not [one for one in PLANTED if one in said + content(tmp_path / "out")]


def test_reports_and_tables_hold_none(capture, tmp_path):
    said = run("report", capture, "-o", tmp_path / "page.html")
    for by in ("kernel", "range", "operator"):
        said += run("breakdown", capture, "--by", by)
    said += run("advise", capture)
    assert not [one for one in PLANTED if one in said + content(tmp_path / "page.html")]
    assert b"looks like a secret" in said


def test_imports_hold_none_unless_asked_to(capture, tmp_path):
    said = run("import", capture, "-o", tmp_path / "imported")
    assert not [one for one in PLANTED if one in said + content(tmp_path / "imported")]
    run("import", capture, "-o", tmp_path / "kept", "--keep-secrets")
    assert TOKEN.encode() in content(tmp_path / "kept")


def test_whatever_redact_overwrites_is_warned_of(capture, tmp_path):
    said = run("redact", capture, "-o", tmp_path / "redacted.json")
    assert not [one for one in PLANTED if one in content(tmp_path / "redacted.json")]
    assert b"redacted.json: 8 found and overwritten" in said
    assert b"and 7 more; before you share it" in run("breakdown", capture, "--by", "kernel")
