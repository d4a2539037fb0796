"""What a path is."""

import os

import pytest

from kernelscope.analysis.errors import EvidenceError
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


@pytest.mark.parametrize("mark", ["import.json", "run.json", "compare.json", "sweep.json"])
def test_pipes_devices_and_links_out_of_a_folder_are_refused(mark, tmp_path):
    folder, other = tmp_path / "given", tmp_path / "other"
    (folder / "trace").mkdir(parents=True)
    (folder / mark).write_text("{}")
    other.write_text("private")
    (folder / "inside").symlink_to(folder / mark)
    kind_of(folder)
    place = folder / "trace" / "info.json"
    os.mkfifo(place)
    with pytest.raises(EvidenceError, match=r"info\.json: not a regular file; remove it"):
        kind_of(folder)
    for target in ("/dev/zero", other):
        place.unlink()
        place.symlink_to(target)
        with pytest.raises(EvidenceError, match=r"info\.json: a link out of the folder"):
            kind_of(folder)


def test_sides_of_a_comparison_may_be_links_and_folders_of_a_recording_may_not(tmp_path):
    folder, other = tmp_path / "given", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "pytorch").symlink_to(other)
    (folder / "compare.json").write_text("{}")
    assert kind_of(folder) is Kind.COMPARISON
    (folder / "run.json").write_text("{}")
    with pytest.raises(EvidenceError, match="pytorch: a link out of the folder"):
        kind_of(folder)


def test_files_and_what_is_not_there(tmp_path):
    (tmp_path / "compare.json").write_text("{}")
    assert kind_of(tmp_path / "compare.json") is Kind.COMPARISON
    (tmp_path / "trace.json").write_text("{}")
    assert kind_of(tmp_path / "trace.json") is Kind.CAPTURE
    assert kind_of(tmp_path / "nothing") is Kind.CAPTURE, "who reads it says that it is not there"
