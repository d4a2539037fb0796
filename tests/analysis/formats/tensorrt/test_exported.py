"""What trtexec exports of layers as JSON: whole, cut, written anew by other programs, and damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.formats.format import detect
from kernelscope.analysis.recordings import captures
from kernelscope.analysis.trace import UNLISTED, Trace
from tests.analysis.formats.tensorrt.profiles import LAYERS, exported

MEANS = [300_000, 2_100_000, 600_000, 200_000]  # of LAYERS, in ns


def read(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "profile.json"
    path.write_text(text)
    assert detect(path).name == "tensorrt-profile"
    return captures.read(path)


@pytest.mark.parametrize("medians", [True, False])
def test_layers_have_the_time_of_an_iteration(tmp_path, medians):
    trace = read(tmp_path, exported(medians=medians))
    assert trace.kernels["name"].tolist() == [name for name, _ in LAYERS]
    assert trace.kernels["duration_ns"].tolist() == MEANS
    assert trace.kernels["median_ns"].notna().all() == medians
    assert trace.info["iteration"] == "the mean of 2"
    assert not trace.diagnostics


def test_json_that_another_program_wrote(tmp_path):
    content = json.loads(exported())
    trace = read(tmp_path, json.dumps(content, indent=4, sort_keys=False))
    assert trace.kernels["duration_ns"].tolist() == MEANS
    trace = read(tmp_path, json.dumps([*content, {"odd": 1}, None]))
    assert trace.diagnostics == {"objects that are no layers": 2}


def test_names_that_trtexec_does_not_escape(tmp_path):
    layers = [('say "hi" \\ Conv_1', (1.0, 3.0)), ("Conv_2", (4.0, 4.0))]
    trace = read(tmp_path, exported(layers))
    assert trace.kernels["name"].tolist() == ['say "hi" \\ Conv_1', "Conv_2"]
    assert trace.kernels["duration_ns"].tolist() == [2_000_000, 4_000_000]


def test_the_part_that_a_cut_file_lacks_is_a_row(tmp_path):
    trace = read(tmp_path, exported(most=2))
    names, durations = trace.kernels["name"].tolist(), trace.kernels["duration_ns"].tolist()
    assert names == [*(name for name, _ in LAYERS[:2]), UNLISTED]
    assert durations[:2] == MEANS[:2]
    assert durations[2] == pytest.approx(800_000, abs=50)  # percentages have six digits
    only = "\n".join(exported(most=2).splitlines()[2:4])  # as people quote it: without the number of iterations
    trace = read(tmp_path, only)
    assert trace.info["iteration"] == "the mean of 2"
    assert trace.kernels["duration_ns"].tolist()[:2] == MEANS[:2]


def test_files_that_cannot_be_read_are_refused_in_a_line(tmp_path):
    with pytest.raises(EvidenceError, match="it holds 2 profiles; put each into a file of its own"):
        read(tmp_path, exported() + exported())
    with pytest.raises(EvidenceError, match="no layer has a usable time") as error:
        read(tmp_path, '[{"count": 2}, {"name": "a", "timeMs": "x", "averageMs": "y", "percentage": 1}]')
    assert "\n" not in str(error.value)
    trace = read(tmp_path, exported().replace('"timeMs" : 4.2, "averageMs" : 2.1', '"timeMs" : -nan, "averageMs" : nan'))
    assert trace.kernels["name"].tolist() == [LAYERS[place][0] for place in (0, 2, 3)] + [UNLISTED]
    assert trace.diagnostics == {"rows without usable time": 1}


def test_halves_of_characters_in_names(tmp_path):
    trace = read(tmp_path, exported().replace("stem/Conv", r"\ud800Conv"))
    assert trace.kernels["duration_ns"].tolist() == MEANS


def test_counts_that_are_no_numbers(tmp_path):
    trace = read(tmp_path, exported().replace('"count" : 2', '"count" : "many"'))
    assert trace.kernels["duration_ns"].tolist() == MEANS  # totals and averages tell it
