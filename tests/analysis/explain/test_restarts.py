"""Several recordings of one program as one side: they are restarts, as those of one run are."""

import shutil

import pandas as pd
import pytest

from kernelscope.analysis.accounting.statistics import median_step_ns
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.explain import restarts, sides
from kernelscope.analysis.explain.explanation import explain


@pytest.fixture
def several(tmp_path, run_folder):
    """A folder of three recordings, whose clean steps are 1.0, 1.1 and 0.9 times what was recorded."""
    for name, factor in (("1", 1.0), ("2", 1.1), ("3", 0.9)):
        run_folder(tmp_path / "base" / name, clean=(factor,))
    return tmp_path / "base"


def test_recordings_are_restarts(several):
    side, alone = restarts.load(several), [sides.load(several / name) for name in "123"]
    assert side.name == "base"
    assert side.windows["restart"].tolist() == [n for n, one in enumerate(alone, 1) for _ in range(len(one.windows))]
    assert side.windows["wall_ns"].sum() == sum(one.windows["wall_ns"].sum() for one in alone)
    assert len(side.clean) == 3
    assert side.clean_ns == median_step_ns([steps for one in alone for steps in one.clean])
    of_window = side.cells.groupby("window_row")["time_ns"].sum()
    pd.testing.assert_series_equal(of_window, side.windows["wall_ns"].astype(float), check_names=False)


def test_a_folder_of_one_recording_is_that(several, run_folder):
    assert restarts.recordings(several / "1") == []
    assert restarts.load(several / "1").name == sides.load(several / "1").name


def test_three_restarts_a_side_give_an_interval(several, tmp_path, run_folder):
    for name, factor in (("1", 1.5), ("2", 1.6), ("3", 1.4)):
        run_folder(tmp_path / "new" / name, clean=(factor,))
    found = explain(restarts.load(several), restarts.load(tmp_path / "new"))
    assert (found["a"]["restarts"], found["b"]["restarts"]) == (3, 3)
    assert found["wall_interval_ns"][0] < found["wall_delta_ns"] < found["wall_interval_ns"][1]
    assert sum(row["delta_ns"] for row in found["rows"]) + found["instrumentation_ns"] == found["wall_delta_ns"]


def test_other_work_is_no_restart(several, run_folder):
    run_folder(several / "4", options={"network": "lenet", "mode": "train", "batch": 1})
    with pytest.raises(EvidenceError, match=r"did different work \(batch.*folder of their own"):
        restarts.load(several)


def test_a_copy_is_no_restart(several):
    shutil.copytree(several / "1", several / "4")
    with pytest.raises(EvidenceError, match=r"4 is a copy of .*1: remove one"):
        restarts.load(several)
