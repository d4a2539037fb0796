"""Layers that trtexec and the samples of TensorRT print: times of an iteration, cut tables, what the log states beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.format import detect
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED, Trace
from tests.analysis.formats.tensorrt.profiles import COPY, LAYERS, LINE, of_first_samples, of_samples, table

# Of LAYERS, by hand: means of two iterations in ns, and kinds
MEANS = [300_000, 2_100_000, 600_000, 200_000]
KINDS = ["layout", "convolution forward", "elementwise", "softmax"]


def read(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "log"
    path.write_text(text)
    assert detect(path).name == "tensorrt-table"
    return captures.read(path)


@pytest.mark.parametrize("version", [7, 8, 10])
@pytest.mark.parametrize("line", ["", "[I] ", LINE, f"> {LINE}"])
def test_layers_have_the_time_of_an_iteration(tmp_path, version, line):
    trace = read(tmp_path, table(version=version, line=line))
    kernels = trace.kernels
    assert kernels["name"].tolist() == kernels["layer"].tolist() == [name for name, _ in LAYERS]
    assert kernels["duration_ns"].tolist() == MEANS
    assert kernels["kind"].tolist() == KINDS
    assert set(kernels["count"]) == {1}
    assert set(kernels["device"]) == {"cuda:0"}
    medians = [350_000, 2_200_000, 700_000, 300_000]
    assert kernels["median_ns"].isna().all() if version == 7 else kernels["median_ns"].tolist() == medians
    assert trace.info["iteration"] == "the mean of 2"
    assert not trace.diagnostics


def test_parts_add_up_to_the_mean_of_the_printed_total(tmp_path):
    layers = [(f"Conv_{place}", (0.01, 0.01, 0.02)) for place in range(7)]
    trace = read(tmp_path, table(layers))
    assert trace.kernels["duration_ns"].sum() == round(7 * 40_000 / 3)
    assert set(trace.kernels["duration_ns"]) == {13_333, 13_334}


@pytest.mark.parametrize(("version", "kept", "rest"), [(8, (1, 3), 900_000), (10, (0, 1, 2), 200_000)])
def test_what_a_table_lacks_of_its_total_is_a_row(tmp_path, version, kept, rest):
    lines = table(version=version).splitlines(keepends=True)
    text = "".join([*lines[:2], *(lines[2 + place] for place in kept), f"{LINE}  ......\n", *lines[6:]])
    trace = read(tmp_path, text)
    assert trace.kernels["duration_ns"].tolist() == [*(MEANS[place] for place in kept), rest]
    assert trace.kernels["name"].tolist()[-1] == UNLISTED
    assert trace.kernels["count"].tolist()[-1] == 0
    assert not trace.diagnostics


def test_percentages_tell_what_a_table_without_its_total_lacks(tmp_path):
    layers = [*LAYERS, ("fc/MatMul", (3.0, 3.8)), ("add/Add", (0.4, 0.4))]
    lines = table(layers).splitlines(keepends=True)
    trace = read(tmp_path, "".join(lines[:5]))  # 6.0 of 14.0 ms, in percentages with one digit
    rest = trace.kernels["duration_ns"][trace.kernels["name"] == UNLISTED]
    assert rest.item() == pytest.approx(4_000_000, rel=0.02)
    assert any("not printed" in note for note in trace.info["notes"])


def test_iterations_follow_from_totals_and_averages(tmp_path):
    layers = [(name, times * 50) for name, times in LAYERS]
    text = "".join(table(layers).splitlines(keepends=True)[1:])
    trace = read(tmp_path, text)
    assert trace.info["iteration"] == "the mean of 100"
    assert trace.kernels["duration_ns"].tolist() == MEANS
    coarse = [("conv1", [0.4161] * 900), ("relu1", [0.03] * 900)]
    trace = read(tmp_path, "".join(table(coarse, version=7).replace("0.4161", "0.42").splitlines(keepends=True)[1:]))
    assert trace.info["iteration"].startswith("the mean of about ")
    assert trace.kernels["duration_ns"].sum() == pytest.approx(446_100, rel=0.02)


def test_lines_that_a_terminal_wrapped(tmp_path):
    text = table().replace("   Time %\n", "   Time\n %\n").replace("100.0\n", "100.\n0\n")
    trace = read(tmp_path, text)
    assert trace.kernels["duration_ns"].tolist() == MEANS
    assert not trace.diagnostics


def test_lines_among_the_rows_are_counted(tmp_path):
    lines = table().splitlines(keepends=True)
    trace = read(tmp_path, "".join([*lines[:3], "[W] [TRT] clocks are not locked\n", *lines[3:]]))
    assert trace.kernels["duration_ns"].tolist() == MEANS
    assert trace.diagnostics == {"lines of tables that are no rows": 1}


def test_what_the_log_states(tmp_path):
    before = (
        f"{LINE}Precision: FP32+FP16\n{LINE}Load engine: \n{LINE}Selected Device: Orin\n{LINE}TensorRT version: 8.5.2\n"
        f"{LINE}Throughput: 310.5 qps\n"
        f"{LINE}Latency: min = 3.1 ms, max = 3.5 ms, mean = 3.3 ms, median = 3.25 ms, percentile(99%) = 3.5 ms\n"
        f"{LINE}GPU Compute Time: min = 3 ms, max = 3.3 ms, mean = 3.1 ms, median = 3.05 ms\n"
    )
    info = read(tmp_path, before + table()).info
    assert info["source"] == {"format": "tensorrt-table", "tool": "trtexec", "version": "8.5.2", "schema": None}
    assert info["devices"] == [{"device": "cuda:0", "name": "Orin"}]
    assert info["settings"] == {"precision": "FP32+FP16"}
    whole = "throughput 310.5 iterations a second; Latency 3.3 ms (median 3.25 ms); GPU Compute Time 3.1 ms (median 3.05 ms)"
    assert f"the log also gives, for whole iterations: {whole}" in info["notes"]
    loaded = read(tmp_path, before.replace("Load engine: ", "Load engine: x.plan") + table()).info
    assert "settings" not in loaded  # the log then states a default
    older = f"{LINE}GPU Compute\n{LINE}min: 1 ms\n{LINE}max: 3 ms\n{LINE}mean: 2.5 ms\n{LINE}median: 2 ms\n"
    assert "GPU Compute 2.5 ms (median 2 ms)" in read(tmp_path, older + table()).info["notes"][-1]


@pytest.mark.parametrize(
    ("banner", "version", "precision"),
    [
        ("&&&& RUNNING TensorRT.trtexec [TensorRT v8601] # ./trtexec --onnx=a.onnx --fp16 --int8", "8.6.1", "FP32+FP16+INT8"),
        ("&&&& PASSED TensorRT.trtexec [TensorRT v100300] # trtexec --onnx=a.onnx", "10.3.0", "FP32"),
        ("&&&& PASSED TensorRT.trtexec [TensorRT v7103] # trtexec --deploy=a.prototxt --best", "7.1.3", "FP32+FP16+INT8"),
        ("&&&& PASSED TensorRT.trtexec [TensorRT v101300] [b9] # trtexec --onnx=a.onnx --stronglyTyped", "10.13.0", None),
        ("&&&& PASSED TensorRT.trtexec [TensorRT v8601] # trtexec --loadEngine=a.plan --fp16", "8.6.1", None),
    ],
)
def test_a_banner_tells_version_and_precisions(tmp_path, banner, version, precision):
    info = read(tmp_path, table() + banner + "\n").info
    assert info["source"]["version"] == version
    assert (info.get("settings") or {}).get("precision") == precision


def test_profilers_of_the_samples(tmp_path):
    trace = read(tmp_path, of_samples())
    assert trace.kernels["duration_ns"].tolist() == MEANS
    assert trace.info["iteration"] == "the mean of 2"
    assert trace.info["source"]["tool"] == "IProfiler"
    trace = read(tmp_path, of_samples(calls=(2, 2, 4, 2)))
    assert trace.kernels["count"].tolist() == [2, 2, 4, 2]
    assert trace.kernels["duration_ns"].tolist() == [600_000, 4_200_000, 1_200_000, 400_000]
    assert "iteration" not in trace.info
    trace = read(tmp_path, of_first_samples())
    assert trace.kernels["duration_ns"].tolist() == MEANS
    assert trace.info["iteration"] == "the mean of an unknown number"
    assert trace.diagnostics == {"names cut short by the tool": 1}


def test_a_profile_counts_once_and_several_are_refused(tmp_path):
    trace = read(tmp_path, table() + table())
    assert trace.kernels["duration_ns"].tolist() == MEANS
    assert trace.diagnostics == {"profiles written twice": 1}
    with pytest.raises(EvidenceError, match=r"2 different profiles \(lines 2, 10\); put each into a file of its own"):
        read(tmp_path, table() + table([("Conv_1", (1.0, 1.0))]))


def test_tables_without_usable_rows_are_refused(tmp_path):
    titles = "".join(table().splitlines(keepends=True)[:2])
    with pytest.raises(EvidenceError, match="line 2: no layer below the titles; run trtexec with --dumpProfile") as error:
        read(tmp_path, titles)
    assert "\n" not in str(error.value)
    empty = f"{LINE}    Layer   Time (ms)   Avg. Time (ms)   Time %\n{LINE}   Conv_0    nan    nan   nan\n"
    with pytest.raises(EvidenceError, match=r"line 1: no layer has a usable time \(the first: Conv_0, nan"):
        read(tmp_path, empty)
    rows = table(total=False).replace("4.20", " nan").replace("2.1000", "   nan")
    trace = read(tmp_path, rows)
    assert trace.diagnostics == {"rows without usable time": 1}


def test_what_follows_the_dla_is_no_change_of_layouts(tmp_path):
    layers = [("data to nvm", (0.1, 0.1)), ("{a,b}", (0.2, 0.2)), ("data copy finish", (0.1, 0.1)),
              ("prob input reformatter 0", (3.0, 3.2)), ("prob", (0.1, 0.1))]  # fmt: skip
    trace = read(tmp_path, table(layers, version=7))
    assert trace.kernels["kind"].tolist() == ["copy", "fused", "unknown", "unknown", "unknown"]
    assert any("DLA" in note for note in trace.info["notes"])
    alone = read(tmp_path, table([("prob input reformatter 0", (3.0, 3.2)), ("conv1", (1.0, 1.0))], version=7))
    assert alone.kernels["kind"].tolist() == ["layout", "convolution forward"]


def test_other_tables_of_layers_are_not_tensorrts(tmp_path):
    path = tmp_path / "log"
    path.write_text("Layer   Time (ms)   Calls\nconv1   1.25   3\n")
    with pytest.raises(EvidenceError, match="no capture of a known format"):
        detect(path)


def test_copies_name_their_layer(tmp_path):
    trace = read(
        tmp_path, table([(f"{COPY}{{ForeignNode[a...b]}}", (1.0, 1.0)), ("{ForeignNode[a...b]}", (2.0, 2.0))], version=10)
    )
    assert trace.kernels["kind"].tolist() == ["layout", "fused"]


RULE = "-" * 60
EXCERPT = f"{RULE}\nLayer      Time (ms)    Avg. Time (ms)   Time %\n{RULE}\n"


def test_a_line_of_dashes_below_the_titles_ends_no_table(tmp_path):
    trace = read(tmp_path, f"{EXCERPT}conv1      12.50      0.2500      60.0\npool1       8.33      0.1666      40.0\n{RULE}\n")
    assert trace.kernels["name"].tolist() == ["conv1", "pool1"]
    assert trace.kernels["duration_ns"].tolist() == [250_000, 166_600]


def test_excerpts_of_one_run_are_one_profile(tmp_path):
    rows = (
        "conv1      12.50      0.2500      6.0\nfc1       8.33      0.1666      4.0\n",
        "norm1      4.16      0.0832      2.0\n",
    )
    trace = read(tmp_path, f"{EXCERPT}{rows[0]}{EXCERPT}{rows[1]}")
    assert trace.kernels["name"].tolist() == ["conv1", "fc1", "norm1", UNLISTED]
    assert trace.info["iteration"] == "the mean of 50"
    assert trace.kernels["duration_ns"].sum() == pytest.approx(4_166_000, rel=0.02)
    assert "2 excerpts without a total, with the same number of iterations, count as one profile" in trace.info["notes"]
    for other in (rows[1].replace("0.0832", "0.0416"), rows[1].replace("2.0\n", "9.0\n"), rows[0].splitlines()[0] + "\n"):
        with pytest.raises(EvidenceError, match="2 different profiles"):
            read(tmp_path, f"{EXCERPT}{rows[0]}{EXCERPT}{other}")
