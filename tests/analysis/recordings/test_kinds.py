"""What a path is."""

import pytest

from kernelscope.analysis.recordings.kinds import Kind, kind_of


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (["run.json"], Kind.RUN),
        (["compare.json", "a/run.json", "b/run.json"], Kind.COMPARISON),
        (["sweep.json", "cells/x/run.json"], Kind.SWEEP),
        (["import.json"], Kind.IMPORT),
        (["first/run.json", "second/run.json"], Kind.RUNS),
        (["kernels.csv"], Kind.CAPTURE),
        (["a/1/run.json", "b/1/run.json"], Kind.SIDES),
        (["a/compare.json"], Kind.CAPTURE),
        (["a/compare.json", "a/b/run.json"], Kind.CAPTURE),
    ],
)
def test_folders(files, kind, tmp_path):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert kind_of(tmp_path) is kind


def test_files_and_what_is_not_there(tmp_path):
    (tmp_path / "compare.json").write_text("{}")
    assert kind_of(tmp_path / "compare.json") is Kind.COMPARISON
    (tmp_path / "trace.json").write_text("{}")
    assert kind_of(tmp_path / "trace.json") is Kind.CAPTURE
    assert kind_of(tmp_path / "nothing") is Kind.CAPTURE, "who reads it says that it is not there"
