"""`import`, and `breakdown` and `report` of what it wrote, as a user would call them, on captures made here."""

import csv
import gzip
import hashlib
import io
import json
import os
import shutil

import pyarrow as pa
import pytest
from pyarrow import parquet

import kernelscope as ks
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings import import_record
from kernelscope.analysis.recordings.imported import Imported
from tests.commands import called
from tests.places import ROOT, corpus

CAPTURE = ROOT / "tests" / "data" / "gpu" / "h200" / "mlp.pt.trace.json.gz"

SUMMARY = """==1234== NVPROF is profiling process 1234, command: ./train
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",75.0,3.000000,30,100.000000,90.000000,110.000000,"volta_sgemm_128x64_nn"
"GPU activities",25.0,1.000000,10,100.000000,90.000000,110.000000,"[CUDA memcpy HtoD]"
"API calls",100.0,8.000000,40,200.000000,1.000000,900.000000,"cudaLaunchKernel"
"""

SMI = """timestamp, index, power.draw [W], utilization.gpu [%]
2020/05/01 12:00:00.000, 0, 60.00 W, 10 %
2020/05/01 12:00:01.000, 0, 63.00 W, 30 %
"""

LINES = """Timer unit: 1e-06 s

Total time: 0.003 s
File: train.py
Function: train at line 1

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
     1                                           def train():
     2        10       1000.0    100.0     33.3      x = load()
     3        10       2000.0    200.0     66.7      y = x + 1
"""


def _event(name, category, start, duration, thread, **arguments):
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": duration, "pid": 1, "tid": thread, "args": arguments}


EVENTS = [
    _event("aten::mm", "cpu_op", 100, 50, 10, **{"External id": 1}),
    _event("cudaLaunchKernel", "cuda_runtime", 110, 10, 10, correlation=7),
    _event("ampere_sgemm_128x64_tn", "kernel", 130, 40, 7, correlation=7, device=0, stream=7),
    _event("<script>alert(1)</script>\x1b[31m", "kernel", 160, 30, 8, correlation=8, device=0, stream=8),
]
TRACE = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A GPU"}], "traceEvents": EVENTS}


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "worker.json"
    path.write_text(json.dumps(TRACE))
    return path


@pytest.fixture
def summary(tmp_path):
    path = tmp_path / "nvprof.csv"
    path.write_text(SUMMARY)
    return path


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Tables have room for all columns."""
    monkeypatch.setenv("COLUMNS", "160")


def _run(*arguments, status=0):
    done = called(*arguments)
    assert done.returncode == status, done.stderr
    return done


def test_the_record_tells_the_file_by_its_content(trace, tmp_path):
    padded = tmp_path / "large.json"  # so that a helper takes the digest
    padded.write_bytes(trace.read_bytes() + b" " * (1 << 20))
    for path in (trace, padded):
        _run("import", path, "-o", tmp_path / "out", "--force")
        source = json.loads((tmp_path / "out" / "import.json").read_text())["sources"]
        content = path.read_bytes()
        assert source == [{"name": path.name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}]


def test_an_imported_capture_is_broken_down_like_a_run(trace, tmp_path):
    done = _run("import", trace, "-o", tmp_path / "out")
    assert "A GPU" in done.stdout
    assert "kernels ran in" in done.stdout
    rows = list(csv.DictReader(io.StringIO(_run("breakdown", tmp_path / "out", "--by", "kind", "--format", "csv").stdout)))
    # from 100 to 190 us: the GEMM alone 130 to 160, both share 160 to 170, the other alone until 190; the host has the rest
    times = {row["kind"]: int(row["time_ns"]) for row in rows}
    assert times["gemm"] == 35_000
    assert times["unknown"] == 25_000
    assert sum(times.values()) == 90_000
    assert json.loads(_run("breakdown", tmp_path / "out", "--by", "operator", "--format", "json").stdout)["totals"] == {
        "kernel_sum_ns": 70_000, "kernel_busy_ns": 60_000, "device_busy_ns": 60_000, "wall_ns": 90_000,
        "known_kind_ns": 40_000, "known_range_ns": 0, "known_operator_ns": 40_000, "known_layer_ns": 0,
    }  # fmt: skip


def test_the_folder_and_the_file_say_the_same(trace, tmp_path):
    _run("import", trace, "-o", tmp_path / "out")
    for by in ("kernel", "operator", "idle"):
        stored, direct = (_run("breakdown", path, "--by", by, "--format", "csv").stdout for path in (tmp_path / "out", trace))
        assert stored == direct
    assert ks.read(tmp_path / "out").kernels["name"].tolist() == ks.read(trace).kernels["name"].tolist()


def test_stored_tables_of_another_version_are_made_again(trace, tmp_path):
    _run("import", trace, "-o", tmp_path / "out")
    before = _run("breakdown", tmp_path / "out", "--by", "kind", "--format", "csv").stdout
    for file in (tmp_path / "out" / "breakdowns").iterdir():
        file.write_text(json.dumps({"version": 0, "breakdown": {"by": "kind", "rows": []}}))
    assert _run("breakdown", tmp_path / "out", "--by", "kind", "--format", "csv").stdout == before


def test_totals_have_no_share_of_a_wall_time(summary, tmp_path):
    done = _run("import", summary, "-o", tmp_path / "out")
    assert "sum of durations" in done.stdout.lower()
    result = json.loads(_run("breakdown", tmp_path / "out", "--by", "kernel", "--format", "json").stdout)
    assert (result["window"], result["step_ns"]) == ("totals", None)
    by_name = {row["kernel"]: row for row in result["rows"]}
    assert by_name["volta_sgemm_128x64_nn"]["duration_ns"] == 3_000_000
    assert by_name["volta_sgemm_128x64_nn"]["count"] == 30
    assert {row["time_ns"] for row in result["rows"]} == {None}
    error = _run("breakdown", tmp_path / "out", "--by", "idle", status=3).stderr
    assert "no timeline" in error


def test_the_report_of_a_capture_escapes_its_names(trace, tmp_path):
    _run("import", trace, "-o", tmp_path / "out")
    _run("report", tmp_path / "out", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page
    assert "\x1b" not in page + _run("breakdown", trace, "--by", "kernel").stdout


@pytest.mark.parametrize("content", [SUMMARY, SMI, LINES], ids=["totals", "samples", "lines"])
def test_captures_without_a_timeline_are_reported_too(content, tmp_path):
    path = tmp_path / "capture"
    path.write_text(content)
    shown = _run("import", path, "-o", tmp_path / "out").stdout
    _run("report", tmp_path / "out", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for text in {SUMMARY: ("volta_sgemm", "3.00 ms"), SMI: ("gpu_power_w", "61.5"), LINES: ("y = x + 1", "2.00 ms")}[content]:
        assert text in page, text
    assert shown.splitlines()[0].endswith({SUMMARY: "3.00 ms of kernels", SMI: "4 samples", LINES: "2 host lines"}[content])


def test_wrong_use_is_said_in_one_line(trace, tmp_path):
    assert "name at least one FILE" in _run("import", "-o", tmp_path / "out", status=2).stderr
    assert "No such file" in _run("import", tmp_path / "none", "-o", tmp_path / "out", status=3).stderr
    unknown = _run("import", trace, "--from", "kinetto", "-o", tmp_path / "out", status=2).stderr
    assert "unknown format 'kinetto'" in unknown
    assert unknown.endswith("did you mean kineto?\n")
    other = _run("import", trace, "--from", "nsys-sqlite", "-o", tmp_path / "out", status=3).stderr
    assert "its content is of format kineto, not nsys-sqlite; leave out --from" in other
    _run("import", trace, "-o", tmp_path / "out")
    assert "--force" in _run("import", trace, "-o", tmp_path / "out", status=3).stderr
    _run("import", trace, "-o", tmp_path / "out", "--force")
    listed = _run("import", "--list").stdout
    assert "nsys-sqlite" in listed
    assert "line-profiler-pickle" in listed


def test_what_somebody_put_into_an_import_stays_when_it_is_replaced(trace, tmp_path):
    out = tmp_path / "out"
    _run("import", trace, "-o", out)
    (out / "notes").mkdir()
    (out / "notes" / "mine.txt").write_text("years of work")
    _run("report", out)
    assert (out / "report.html").is_file()
    _run("import", trace, "-o", out, "--force")
    assert (out / "notes" / "mine.txt").read_text() == "years of work"
    assert not (out / "report.html").exists(), "it was of the import before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "worker.json"]


def test_a_failed_import_leaves_no_folder(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("nothing")
    _run("import", bad, "-o", tmp_path / "new" / "out", status=3)
    assert not (tmp_path / "new" / "out").exists()


def test_an_import_is_not_exported_into_itself(trace, tmp_path):
    _run("import", trace, "-o", tmp_path / "out")
    before = (tmp_path / "out" / "trace" / "kernels.parquet").read_bytes()
    refused = _run("export", tmp_path / "out", "-o", tmp_path / "out" / "trace", "--format", "parquet", "--force", status=2)
    assert "is inside the input" in refused.stderr
    assert (tmp_path / "out" / "trace" / "kernels.parquet").read_bytes() == before


@pytest.mark.parametrize("name", ["import.json", "trace/kernels.parquet", "breakdowns/kind.json"])
def test_a_file_of_an_import_is_not_replaced_by_what_is_made_of_it(name, trace, tmp_path):
    out = tmp_path / "out"
    _run("import", trace, "-o", out)
    before = (out / name).read_bytes()
    for command in (
        ("export", out, "--format", "chrome"),
        ("report", out),
        ("export", out / ".." / "out", "--format", "markdown"),
    ):
        said = _run(*command, "-o", out / name, "--force", status=2).stderr
        assert f"{out / name}: is part of the input {command[1]}; name another file" in said
    assert (out / name).read_bytes() == before
    for _ in range(2):  # a new name, and what was exported there before
        _run("export", out, "-o", out / "events.json", "--force")
        _run("report", out, "-o", out / "page.html", "--force")


@pytest.mark.parametrize("command", ["export", "report", "explain"])
def test_a_pipe_is_no_output(command, trace, tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    more = {
        "export": [trace, "-o", pipe, "--force"],
        "report": [trace, "-o", pipe, "--force"],
        "explain": [trace, CAPTURE, "--report", pipe],
    }
    assert f"{pipe}: not a regular file; name one to write" in _run(command, *more[command], status=2).stderr


def test_a_failed_import_loses_nothing_that_was_there(trace, tmp_path):
    _run("import", trace, "-o", tmp_path / "out")
    bad = tmp_path / "bad.json"
    bad.write_text('{"traceEvents": [{"ph": "X", "name": ')
    assert str(bad) in _run("import", bad, "-o", tmp_path / "out", "--force", status=3).stderr
    assert "gemm" in _run("breakdown", tmp_path / "out", "--by", "kind").stdout


def test_a_kernel_at_the_beginning_of_a_recording_that_counts_from_zero_has_its_time(tmp_path):
    events = [_event("gemm", "kernel", 100 * place, 50, 7, device=0, stream=7) for place in range(30)]
    path = tmp_path / "from_zero.json"
    path.write_text(json.dumps({**TRACE, "traceEvents": events}))
    rows = json.loads(_run("breakdown", path, "--by", "kernel", "--format", "json").stdout)["rows"]
    assert [(row["count"], row["time_ns"]) for row in rows if row["kernel"] == "gemm"] == [(30, 30 * 50_000)]


@pytest.mark.parametrize("name", [None, ""])
def test_kernels_without_a_name_are_counted_as_such(name, tmp_path):
    events = [_event("gemm", "kernel", 10**15 + 100 * place, 50, 7, device=0, stream=7) for place in range(30)]
    path = tmp_path / "unnamed.json"
    path.write_text(json.dumps({**TRACE, "traceEvents": [{**event, "name": name} for event in events[:5]] + events[5:]}))
    rows = json.loads(_run("breakdown", path, "--by", "kernel", "--format", "json").stdout)["rows"]
    counts = {row["kernel"]: row["count"] for row in rows if row["count"]}
    assert counts == {"gemm": 25, "(no name)": 5}
    assert "not all of it could be used: kernels without a name (5)" in _run("breakdown", path, "--by", "kernel").stderr


@pytest.mark.parametrize("what", ["stream", "correlation"])
def test_kernels_whose_stream_or_correlation_is_no_number_are_counted_as_such(what, tmp_path):
    events = [
        _event("gemm", "kernel", 10**15 + 100 * place, 50, "x", device=0, stream=7, correlation=place) for place in range(30)
    ]
    for event in events[:5]:
        event["args"] = {**event["args"], what: "x"}
    path = tmp_path / "unrelated.json"
    path.write_text(json.dumps({**TRACE, "traceEvents": events}))
    said = _run("breakdown", path, "--by", "kernel").stderr
    assert f"not all of it could be used: kernels without a usable {what} (5)" in said


def test_a_time_that_was_not_recorded_is_told_by_every_command(tmp_path):
    events = [_event("gemm", "kernel", 10**15 + 100 * place, 50, 7, device=0, stream=7) for place in range(30)]
    path = tmp_path / "unknown.json"
    path.write_text(json.dumps({**TRACE, "traceEvents": [{**events[0], "ts": 0}, *events[1:]]}))
    said = _run("breakdown", path, "--by", "kernel").stderr
    assert "not all of it could be used: kernels with a time of zero (1)" in said


def test_a_secret_in_a_files_name_is_told(trace, tmp_path):
    named = trace.rename(tmp_path / f"worker-{'gh' + 'p_'}{'a1B2c3D4e5F6' * 3}.json")
    said = _run("import", named, "-o", tmp_path / "out").stderr
    assert "the file's name holds what looks like a secret: GitHub token; rename the file before you share" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps({"traceEvents": [{"ph": "X", "name": "x" * 5000}]}).encode(), "a trace of events; `import --from kineto`"),
        (json.dumps(TRACE).encode("utf-16"), "a trace of events in UTF-16; convert it to UTF-8"),
    ],
)
def test_a_trace_of_events_that_is_not_recognised_is_told_what_to_do(content, said, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert said in _run("breakdown", path, status=3).stderr


def _half(table):
    return table.slice(0, table.num_rows // 2)


def _doubled(table):
    return pa.concat_tables([table, table])


def _empty(table):
    return table.slice(0, 0)


def _without_names(table):
    return table.drop_columns(["name"])


def _refused(folder):
    """Return the line by which every command that looks at the Trace refuses a folder."""
    commands = (["breakdown", folder, "--by", "kernel"], ["export", folder, "-o", folder.parent / "x.json"], ["report", folder])
    (line,) = {_run(*command, status=3).stderr for command in commands}
    assert line.count("\n") == 1
    return line


@pytest.fixture
def imported(tmp_path):
    folder = tmp_path / "imported"
    _run("import", CAPTURE, "-o", folder)
    return folder


@pytest.mark.parametrize("change", [_half, _doubled, _empty, _without_names])
def test_a_table_that_was_changed_since_is_refused(change, imported):
    file = imported / "trace" / "kernels.parquet"
    table = parquet.read_table(file)
    parquet.write_table(change(table).replace_schema_metadata(table.schema.metadata), file)
    assert f"{file}: was changed since the import; import the capture again" in _refused(imported)


@pytest.mark.parametrize("what", ["trace/kernels.parquet", "trace", "trace/info.json"])
def test_parts_of_another_import_are_refused(what, imported, trace, tmp_path):
    _run("import", trace, "-o", tmp_path / "other")
    if what == "trace":
        shutil.rmtree(imported / what)
    (shutil.copytree if what == "trace" else shutil.copy)(tmp_path / "other" / what, imported / what)
    assert "was changed since the import; import the capture again" in _refused(imported)


def test_a_table_that_is_gone_is_told(imported):
    (imported / "trace" / "copies.parquet").unlink()
    assert "copies.parquet: was removed since the import; import the capture again" in _refused(imported)


def test_a_change_that_keeps_the_size_is_refused_where_the_table_is_read(imported):
    file = imported / "trace" / "kernels.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    said = _run("export", imported, "-o", imported.parent / "x.json", status=3).stderr
    assert f"{file}: was changed since the import" in said


@pytest.mark.parametrize(
    "command",
    [("report", "--format", "table"), ("report", "--format", "json"), ("breakdown", "--by", "kind"), ("report", "-o", "x.html")],
)
def test_tables_of_a_trace_that_was_changed_are_not_shown(command, imported):
    file = imported / "trace" / "kernels.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    done = _run(command[0], imported, *command[1:], status=3)
    assert done.stdout == ""
    assert f"{file}: was changed since the import; import the capture again" in done.stderr


def test_an_import_is_told_to_be_one(imported, tmp_path):
    said = _run("import", imported, "-o", tmp_path / "again", status=3).stderr
    assert f"{imported}: already an import; use it directly, as in `kernelscope breakdown {imported}`" in said


def test_breakdowns_of_another_import_are_made_again(imported, trace, tmp_path):
    before = _run("breakdown", imported, "--by", "kernel").stdout
    _run("import", trace, "-o", tmp_path / "other")
    shutil.copy(tmp_path / "other" / "breakdowns" / "kernel.json", imported / "breakdowns" / "kernel.json")
    assert _run("breakdown", imported, "--by", "kernel").stdout == before


def test_imports_without_notes_of_their_files_open_as_before(imported):
    before = _run("breakdown", imported, "--by", "kernel").stdout
    file = imported / "import.json"
    record = json.loads(file.read_text())
    del record["files"]
    file.write_text(json.dumps(record))
    shutil.rmtree(imported / "breakdowns")
    assert _run("breakdown", imported, "--by", "kernel").stdout == before


@pytest.mark.parametrize(
    "notes", [None, 7, ["x"], {"trace/x": 1}, {"trace/x": [1, "2"]}, {"/dev/zero": [0, 0]}, {"../x": [0, 0]}]
)
def test_notes_that_are_none_are_refused(notes, imported):
    file = imported / "import.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "files": notes}))
    assert "the record of its files is damaged; import the capture again" in _refused(imported)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("tables", None, "'tables' is not an object"),
        ("tables", {"kernels": "1"}, "'kernels' is str"),
        ("sources", [{}], "an entry of 'sources' has no 'name'"),
        ("info", None, "'info' is not an object"),
        ("info", {"warnings": None}, "'warnings' is not a list"),
        ("info", {"devices": [{"device": None}]}, "'device' is NoneType"),
        ("devices", "x", "'devices' is not a list"),
        ("devices", [1], "an entry of 'devices' is not an object"),
        ("samples", None, "'samples' is not a list"),
        ("diagnostics", [[1]], "'diagnostics' is not an object"),
    ],
)
def test_a_record_of_other_types_is_refused(key, value, said, tmp_path):
    record = {"schema": "kernelscope/import/1", "sources": [], "info": {}, "diagnostics": {}, "tables": {}}
    assert import_record.wrong(record) == ""
    (tmp_path / "import.json").write_text(json.dumps({**record, key: value}))
    with pytest.raises(EvidenceError) as error:
        Imported(tmp_path)
    assert str(error.value) == f"{tmp_path}/import.json: not the record of an import ({said}); import the capture again"


def test_copies_and_captures_of_two_machines_are_refused(tmp_path):
    plain = tmp_path / "unpacked.json"
    plain.write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    same = _run("import", CAPTURE, plain, "-o", tmp_path / "out", status=3).stderr
    assert same == f"kernelscope: error: {plain}: has the same content as {CAPTURE} once unpacked; name one of them\n"
    apart = _run(
        "import", CAPTURE, corpus("kineto/AMD-AGI__TraceLens__b200_eager_trace.json.gz"), "-o", tmp_path / "out", status=3
    )
    assert "from another machine (cuda:0 is NVIDIA B200, but NVIDIA H200 in" in apart.stderr
    assert apart.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_files_with_unrelated_clocks_are_not_put_together(trace, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**TRACE, "traceEvents": [{**event, "ts": event["ts"] + 5} for event in EVENTS]}))
    error = _run("import", trace, other, "-o", tmp_path / "out", status=3).stderr
    assert "clock" in error


def test_a_timeline_and_totals_of_what_it_lacks_go_together(trace, summary, tmp_path):
    refused = _run("import", trace, summary, "-o", tmp_path / "out", status=3).stderr
    assert f"{summary}: has totals of kernels, and {trace} has them on a timeline; name one of them" in refused
    summary.write_text("".join(line for line in SUMMARY.splitlines(keepends=True) if not line.startswith('"GPU')))
    _run("import", trace, summary, "-o", tmp_path / "out")
    both = ks.read(tmp_path / "out")
    assert len(both.kernels) == 2
    assert both.totals["name"].tolist() == ["cudaLaunchKernel"]
