"""One stream, taken apart with every line's place kept."""

import random
from pathlib import Path

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.files import stream

DATA = Path(__file__).resolve().parents[2] / "data" / "onednn"


def test_every_line_of_a_recording_belongs_to_someone():
    path = DATA / "pytorch_lenet.txt"
    lines = path.read_text().splitlines()
    parts = stream.split(path)
    assert parts.line_count == len(lines)
    assert len(parts.onednn) == sum("onednn_verbose," in line for line in lines)
    assert len(parts.mkl) == sum(line.startswith("MKL_VERBOSE ") for line in lines)
    assert len(parts.markers) == sum(line.startswith("@kernelscope ") for line in lines)
    numbers = [number for table in (parts.onednn, parts.mkl, parts.markers, parts.application) for number in table["line_number"]]
    assert sorted(numbers) == list(range(1, len(lines) + 1))


def test_markers_nest_and_their_times_rise():
    markers = stream.split(DATA / "pytorch_lenet.txt").markers
    assert markers["time_ns"].is_monotonic_increasing
    assert markers.iloc[0].to_dict() == {"line_number": 1, "time_ns": 3430698839557, "edge": "B", "name": "step 0"}
    opened = []
    for edge, name in zip(markers["edge"], markers["name"], strict=True):
        if edge == "B":
            opened.append(name)
        else:
            assert opened.pop() == name


def test_output_without_a_line_end_hides_nothing():
    parts = stream.split(
        [
            "loss 0.5@kernelscope 12 B conv 1",
            "50%\r100%MKL_VERBOSE SSCAL(8,0x1,0x2,1) 8.06us CNR:OFFonednn_verbose,v1,primitive,exec,cpu",
            "",
            "@kernelscope 13 E conv 1\r",
            "@kernelscope is a name",
        ]
    )
    assert parts.application.values.tolist() == [[1, "loss 0.5"], [2, "50%\r100%"], [3, ""], [5, "@kernelscope is a name"]]
    assert parts.markers.values.tolist() == [[1, 12, "B", "conv 1"], [4, 13, "E", "conv 1"]]
    assert parts.mkl.values.tolist() == [[2, "MKL_VERBOSE SSCAL(8,0x1,0x2,1) 8.06us CNR:OFF"]]
    assert parts.onednn.values.tolist() == [[2, "onednn_verbose,v1,primitive,exec,cpu"]]


def test_an_empty_stream_and_one_that_is_not_there(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    parts = stream.split(tmp_path / "empty")
    assert parts.line_count == 0
    assert parts.onednn.empty
    assert parts.markers.empty
    assert parts.application.empty
    with pytest.raises(EvidenceError, match="No such file"):
        stream.split(tmp_path / "missing")


def test_bytes_that_are_no_text_stay_the_applications(tmp_path):
    (tmp_path / "raw").write_bytes(b"\xff\xfe\x00binary\nMKL_VERBOSE oneMKL 2024\n")
    parts = stream.split(tmp_path / "raw")
    assert len(parts.application) == 1
    assert parts.mkl["line_number"].tolist() == [2]


@pytest.mark.parametrize("seed", range(20))
def test_only_lines_with_a_token_are_kept_for_captures(tmp_path, seed):
    rng = random.Random(seed)
    parts = ["", "x", "dnnl_verbose,exec", "a onednn_verbose,v1", "MKL_VERBOSE SGEMM(", "MKL_VERBOSE", "nn_verbose", "é\r"]
    path = tmp_path / "log"
    path.write_text("".join(rng.choice(parts) + "\n" for _ in range(rng.randint(0, 40))), encoding="utf8", newline="")
    tokens = ("nn_verbose,", "dnnl_verbose,", "MKL_VERBOSE ")
    assert stream.verbose_lines(path) == [line for line in stream.lines(path) if any(token in line for token in tokens)]


def test_a_last_line_without_its_end_is_no_whole_one(tmp_path):
    path = tmp_path / "log"
    path.write_text("onednn_verbose,exec,cpu,1.25\nonednn_verbose,exec,cpu,0.0")
    whole, cut = stream.verbose_lines(path)
    assert whole == "onednn_verbose,exec,cpu,1.25"
    assert cut != "onednn_verbose,exec,cpu,0.0"  # whose time may have been 0.0288
