"""The main job, end to end and for real: small networks in all four frameworks, checked against the raw evidence."""

import csv
import json
import os
import re

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

import kernelscope as ks
from kernelscope.analysis.accounting.breakdowns import breakdowns
from kernelscope.analysis.recordings.run import Run
from kernelscope.workloads import networks
from tests.commands import called
from tests.places import ROOT

pytestmark = pytest.mark.slow

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "cntk")
# Both modes, inference with one framework of each kind; that all networks are the same work everywhere is tested in workloads
COMPARED = {"lenet train": FRAMEWORKS, "lstm infer": ("pytorch", "cntk")}
FIRST = "lenet train"
STEPS = 15
# CI looks at the comparison that `make demo` made before, so that this is tested, too; elsewhere a shorter one does
DEMO = bool(os.environ.get("KERNELSCOPE_DEMO"))
NOTEBOOKS = ROOT / "docs" / "notebooks"
TABLES = ("layer", "kernel", "kind", "phase", "step", "operator", "range", "idle", "line")
VERBOSE = re.compile(r"^(onednn|dnnl)_verbose,")


@pytest.fixture(scope="module", params=[pytest.param(name, marks=() if name == FIRST else pytest.mark.long) for name in COMPARED])
def compared(request, tmp_path_factory):
    """One real comparison: (folder, network, mode, what was printed)."""
    network, mode = request.param.split()
    if DEMO and request.param == FIRST:
        return ROOT / "out" / "demo", network, mode, (ROOT / "out" / "demo.txt").read_text()
    folder = tmp_path_factory.mktemp("compare") / f"{network}-{mode}"
    repeats = 2 if request.param == FIRST else 1  # restarts are the same for all networks
    options = ["--device", "cpu", "--mode", mode, "--batch", 64, "--steps", STEPS, "--repeats", repeats, "-o", folder]
    done = called("compare", network, "-f", ",".join(COMPARED[request.param]), *options)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return folder, network, mode, done.stdout


def sides(folder):
    """The frameworks of a comparison."""
    return json.loads((folder / "compare.json").read_text())["frameworks"]


def side(compared, framework):
    """The run folder of one of FRAMEWORKS, where the comparison has it."""
    folder, network, mode, _ = compared
    if framework not in COMPARED[f"{network} {mode}"]:
        pytest.skip("not one of this comparison's sides")
    return folder / framework


def test_all_files_are_there_and_the_comparison_is_readable(compared):
    folder, network, mode, stdout = compared
    result = json.loads((folder / "compare.json").read_text())
    assert result["schema"] == "kernelscope/compare/1"
    assert result["frameworks"] == list(COMPARED[f"{network} {mode}"])
    assert (folder / "report.html").stat().st_size > 20_000
    assert list((folder / "tables").glob("*.csv"))
    for name in result["frameworks"]:
        assert name in stdout
        assert json.loads((folder / name / "run.json").read_text())["complete"] is True
    assert network in stdout
    assert mode in stdout


def test_it_is_the_same_work(compared):
    folder, _, mode, _ = compared
    fairness = json.loads((folder / "compare.json").read_text())["fairness"]
    assert fairness["failed"] is False
    passed = {(row["check"], row["framework"]) for row in fairness["rows"] if row["status"] == "pass"}
    checks = {check for check, _ in passed}
    assert len(checks) >= (4 if mode == "train" else 3), checks
    for check in checks:
        assert {framework for c, framework in passed if c == check} >= set(sides(folder)) - {"pytorch"}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_table_adds_up_and_layers_are_covered(compared, framework):
    folder, network, _, _ = compared
    side(compared, framework)
    done = called("breakdown", folder / framework, "--by", "layer", "--format", "json")
    assert done.returncode == 0, done.stderr
    envelopes = {by: table.as_dict() for by, table in breakdowns(ks.read(folder / framework), TABLES).items()}
    assert json.loads(done.stdout)["rows"] == envelopes["layer"]["rows"]
    for by, envelope in envelopes.items():
        assert envelope["schema"] == "kernelscope/breakdown/1"
        assert all(isinstance(row["time_ns"], int) for row in envelope["rows"])
        assert sum(row["time_ns"] for row in envelope["rows"]) == envelope["step_ns"]
        if by == "layer":
            assert envelope["coverage"] >= 0.90
            known = {layer.name for layer in networks.get(network).layers}
            named = {row["layer"] for row in envelope["rows"] if not row["layer"].startswith("(")}
            assert named <= known
            computing = {layer.name for layer in networks.get(network).layers if layer.parameters}
            assert computing <= named
            assert all(row["method"] for row in envelope["rows"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_step_is_the_mean_of_the_stamps(compared, framework):
    folder, *_ = compared
    side(compared, framework)
    lines = (Run(folder / framework).kernels_pass().folder / "steps.jsonl").read_text().splitlines()
    steps = [step for step in map(json.loads, lines) if not step["warmup"]]
    asked = Run(folder / framework).record["options"]["steps"]
    assert len(steps) == asked
    mean = sum(step["end_ns"] - step["start_ns"] for step in steps) / asked
    assert abs(ks.breakdown(ks.read(folder / framework), "phase").step_ns - mean) <= 0.5


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet"])
def test_primitives_are_all_there_with_the_time_that_the_library_printed(compared, framework):
    """Count oneDNN's own lines between the first and last measured step with csv, and compare kernel by kernel."""
    folder, *_ = compared
    side(compared, framework)
    trace = ks.read(folder / framework)
    measured = trace.steps[~trace.steps["warmup"]]
    kernels = trace.kernels[(trace.kernels["library"] == "onednn") & trace.kernels["step"].isin(measured["step"])]
    recorded = Run(folder / framework).kernels_pass().folder
    child = json.loads((recorded / "child.json").read_text())
    offset = child["anchors"][-1]["monotonic_ns"] - child["anchors"][-1]["wall_ns"]
    printed = []
    for line in (recorded / "stdout.raw").read_text(errors="replace").splitlines():
        if VERBOSE.match(line) and (",exec," in line):
            row = next(csv.reader([line]))
            stamp = next(field for field in row[1:3] if re.fullmatch(r"\d+\.\d+", field))
            at = float(stamp) * 1e6 + offset
            inside = (measured["start_ns"] <= at) & (at < measured["end_ns"])
            if inside.any():
                after = row[row.index("exec") + 1 :]
                printed.append({"primitive": after[1], "duration_ns": round(float(row[-1]) * 1e6)})
    expected = pd.DataFrame(printed, columns=["primitive", "duration_ns"])
    assert abs(len(kernels) - len(expected)) <= 2, "a line at the very edge of a step may fall on either side"
    assert kernels["duration_ns"].sum() == pytest.approx(expected["duration_ns"].sum(), rel=0.01)


def test_matrix_products_of_pytorch_are_all_there_with_the_time_that_mkl_printed(compared):
    """Count MKL's own lines between the marks of the measured steps, in the order of the stream, and compare."""
    folder, *_ = compared
    recorded = Run(folder / "pytorch").kernels_pass().folder
    steps = [json.loads(line) for line in (recorded / "steps.jsonl").read_text().splitlines()]
    measured = {f"step {step['step']}" for step in steps if not step["warmup"]}
    expected, inside = [], False
    for line in (recorded / "stdout.raw").read_text(errors="replace").splitlines():
        mark = re.fullmatch(r"@kernelscope \d+ ([BE]) (step \d+)", line)
        if mark:
            inside = mark[1] == "B" and mark[2] in measured
        call = re.match(r"MKL_VERBOSE (\w+)\(.*\) ([\d.]+)(ns|us|ms|s) ", line)
        if call and inside:
            expected.append(round(float(call[2]) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[call[3]]))
    trace = ks.read(folder / "pytorch")
    kernels = trace.kernels[
        (trace.kernels["library"] == "mkl") & trace.kernels["step"].isin(trace.steps[~trace.steps["warmup"]]["step"])
    ]
    assert len(expected) > 0
    assert sorted(kernels["duration_ns"]) == sorted(expected)


def _of_convolutions(folder, framework, mode):
    """Return the (phase, kind) in which convolutions must show: matrix products where TensorFlow goes without oneDNN's."""
    settings = json.loads((Run(folder / framework).kernels_pass().folder / "child.json").read_text())["settings"]
    native = framework == "tensorflow" and not settings["onednn"]
    wanted = [("forward", "gemm" if native else "convolution forward")]
    if mode == "train" and native:
        wanted += [("backward", "gemm")]
    elif mode == "train" and framework != "cntk":  # CNTK's node times do not tell the two gradients apart
        wanted += [("backward", "convolution data gradient"), ("backward", "convolution weight gradient")]
    return wanted


def test_convolutions_and_products_show_with_their_problems(compared):
    folder, network, mode, _ = compared
    for framework in sides(folder):
        table = ks.breakdown(ks.read(folder / framework), "layer-kernel").table
        gemms = table[table["kind"] == "gemm"]
        assert len(gemms), f"{framework} shows no matrix product"
        assert gemms["problem"].notna().any()
        if network == "lenet":
            for phase, kind in _of_convolutions(folder, framework, mode):
                rows = table[(table["kind"] == kind) & (table["phase"] == phase)]
                assert len(rows), f"{framework} shows no {kind} in its {phase} phase"
                if kind != "gemm":
                    assert rows["layer"].dropna().str.startswith("conv").all()
                assert rows["layer"].dropna().str.startswith("conv").any()
    if network == "lenet":
        layouts = {f: (ks.breakdown(ks.read(folder / f), "kernel").table["kind"] == "layout").any() for f in ("pytorch", "mxnet")}
        assert layouts["pytorch"]
        assert layouts["mxnet"]


def test_the_columns_of_a_comparison_add_up_to_the_clean_step(compared):
    folder, *_ = compared
    result = json.loads((folder / "compare.json").read_text())
    for row in result["summary"]:
        name = row["framework"]
        for table in ("layers", "kinds", "cells"):
            assert sum(line["time_ns"][name] or 0 for line in result[table]) == row["step_median_ns"]


def test_parameters_are_the_canonical_ones_or_the_difference_is_said(compared):
    folder, network, *_ = compared
    canonical = networks.parameter_count(networks.get(network))
    for framework in sides(folder):
        check = json.loads((folder / framework / "check" / "1" / "check.json").read_text())
        count = sum(parameter["count"] for parameter in check["parameters"])
        assert count == canonical or network == "lstm"


def test_its_export_for_perfetto_holds_every_event_of_every_side(compared, tmp_path):
    folder, network, mode, _ = compared
    if (network, mode) != ("lenet", "train"):
        pytest.skip("one comparison is enough")
    done = called("export", folder, "--format", "perfetto", "-o", tmp_path / "all.pftrace")
    assert done.returncode == 0, done.stderr
    packets = PerfettoTrace.FromString((tmp_path / "all.pftrace").read_bytes()).packet
    begun = [p.track_event for p in packets if p.track_event.type in (TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_INSTANT)]
    tables = ("steps", "ranges", "operators", "calls", "kernels", "copies", "graphs", "syncs", "host_lines")
    traces = [ks.read(folder / framework) for framework in FRAMEWORKS]
    assert len(begun) == sum(len(getattr(trace, table)) for trace in traces for table in tables)
    sides = [p.track_descriptor.name for p in packets if p.HasField("track_descriptor") and not p.track_descriptor.parent_uuid]
    assert [name.split()[0] for name in sides] == list(FRAMEWORKS)


def test_one_of_an_earlier_version_is_exported_as_it_is_compared_now(compared, tmp_path):
    folder, network, mode, _ = compared
    if (network, mode) != ("lenet", "train"):
        pytest.skip("one comparison is enough")
    for framework in FRAMEWORKS:
        (tmp_path / framework).symlink_to(folder / framework)
    recorded = json.loads((folder / "compare.json").read_text())
    written = []
    for result in (recorded, {**recorded, "results": 0, "kernels": {}}):
        (tmp_path / "compare.json").write_text(json.dumps(result))
        target = tmp_path / f"{len(written)}.md"
        assert called("export", tmp_path, "--format", "markdown", "-o", target).returncode == 0
        named = re.compile(r"breakdown \S.* show which lines.*")  # by the folder that it was recorded into, or is read from
        written.append(named.sub("", target.read_text()))
    assert written[0] == written[1]


def test_the_example_notebook_runs(compared, monkeypatch):
    folder, network, mode, _ = compared
    if (network, mode) != ("lenet", "train"):
        pytest.skip("one comparison is enough")
    monkeypatch.setenv("KERNELSCOPE_RUNS", str(folder))
    notebook = nbformat.read(NOTEBOOKS / "results.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type != "stream"]
    pages = [output.data["text/html"] for output in outputs if "text/html" in output.data]
    assert [page.split("<b>")[1].split()[0] for page in pages[:1]] == ["Comparison:"]
    assert any("not explained" in page for page in pages)
    assert any("image/png" in output.data for output in outputs)
