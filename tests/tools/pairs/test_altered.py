"""Captures that are altered in known ways: only times change, by what was asked for; and what is said of such a pair."""

import gzip
import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelscope.analysis.recordings import reading

FOLDER = Path(__file__).parent
DATA = FOLDER.parents[1] / "data/gpu/h200"

spec = importlib.util.spec_from_file_location("altered", FOLDER / "altered.py")
altered = sys.modules["altered"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(altered)
CHANGES = {change.name: change for change in altered.CHANGES}


@pytest.fixture
def trace():
    """A trace of torch.profiler with five steps."""
    return DATA / "gpt.pt.trace.json.gz"


@pytest.fixture
def database(tmp_path):
    """A SQLite file of nsys."""
    target = tmp_path / "a.sqlite"
    with gzip.open(DATA / "nsys-precision-a.sqlite.gz") as packed, target.open("wb") as out:
        shutil.copyfileobj(packed, out)
    return target


def test_time_passes_when_and_for_as_long_as_is_asked():
    moved = altered.mapping([(20, 1), (10, 5)])
    assert moved(np.array([9, 10, 19, 20, 30])).tolist() == [9, 15, 24, 26, 36]


@pytest.mark.parametrize("kind", ["trace", "database"])
@pytest.mark.parametrize("name", ["one kernel", "all kernels"])
def test_kernels_get_longer_by_what_passes_within_them(kind, name, request, tmp_path):
    path = request.getfixturevalue(kind)
    recorded = (altered.Nsys if kind == "database" else altered.Kineto)(path)
    passing = CHANGES[name].passing(recorded)
    target = tmp_path / f"b{recorded.suffix}"
    recorded.write(target, altered.mapping(passing))
    total = []
    for one in (path, target):
        with reading.reading(one) as read:
            total.append((len(read.kernels), int((read.kernels["end_ns"] - read.kernels["start_ns"]).sum())))
    assert total[1] == (total[0][0], total[0][1] + sum(longer for _, longer in passing))


@pytest.mark.parametrize("name", ["one kernel", "noise"])
def test_what_is_said_is_judged(trace, name, monkeypatch):
    monkeypatch.setattr(altered, "CHANGES", (CHANGES[name],))
    ((right, line),) = altered.tried(trace, None)
    assert right, line
