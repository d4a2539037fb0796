"""A sweep's results on disk: what is written is read, unknown stays null, and a damaged folder is said to be so in one line."""

import json
import shutil

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelscope.analysis.comparisons import sweeps
from kernelscope.analysis.errors import EvidenceError

CELL = {
    "cell": "mxnet-lenet-train-b64-cpu-t2", "experiment": "thesis", "framework": "mxnet", "network": "lenet", "mode": "train",
    "batch": 64, "threads": 2, "device": "cpu", "devices": 1, "status": "done", "step_ns": 6_400_000, "repeats": 3,
    "samples_per_second": 10_000.0, "repeat_samples_per_second": [9_000.0, 10_000.0, 11_000.0], "autotune": False,
    "processor_utilisation": [0.5, 0.75], "foreign_cores": 0.125,
}  # fmt: skip
MISSING = {**{key: CELL[key] for key in list(CELL)[:9]}, "cell": "b", "status": "not available", "reason": "cntk is not set up"}


@pytest.fixture
def folder(tmp_path):
    record = {"schema": "kernelscope/sweep/1", "name": "thesis-small", "title": "t", "experiment": "thesis", "cells": []}
    (tmp_path / "sweep.json").write_text(json.dumps(record))
    sweeps.write(tmp_path, [CELL, MISSING])
    return tmp_path


def test_what_is_written_is_read(folder):
    sweep = sweeps.read(folder)
    assert (sweep.name, sweep.experiment) == ("thesis-small", "thesis")
    assert list(sweep.cells.columns) == [column.name for column in sweeps.COLUMNS]
    first = sweep.cells.iloc[0]
    assert {key: first[key] for key in CELL if not isinstance(CELL[key], list)} == {
        key: value for key, value in CELL.items() if not isinstance(value, list)
    }
    assert list(first["repeat_samples_per_second"]) == CELL["repeat_samples_per_second"]
    assert list(sweep.done()["cell"]) == [CELL["cell"]]


def test_unknown_is_null(folder):
    second = sweeps.read(folder).cells.iloc[1]
    known = {key for key in second.index if key in MISSING}
    for name in set(second.index) - known:
        assert second[name] is None or pd.isna(second[name]), name
    assert second["reason"] == "cntk is not set up"


def test_a_packed_sweep_is_read(folder, tmp_path_factory):
    cell = folder / "cells" / CELL["cell"]
    cell.mkdir(parents=True)
    (cell / "run.json").write_text("{}")
    packed = shutil.make_archive(str(tmp_path_factory.mktemp("packed") / "sweep"), "gztar", folder.parent, folder.name)
    assert list(sweeps.read(packed).cells["cell"]) == [CELL["cell"], "b"]


def test_replacing_leaves_one_file(folder):
    sweeps.write(folder, [MISSING])
    assert len(sweeps.read(folder).cells) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["results.parquet", "sweep.json"]


def test_every_column_is_documented():
    assert all(column.meaning for column in sweeps.COLUMNS)
    assert len({column.name for column in sweeps.COLUMNS}) == len(sweeps.COLUMNS)


def _without(folder, column):
    table = pq.read_table(folder / "results.parquet")
    pq.write_table(table.drop_columns([column]), folder / "results.parquet")


def _with_status(folder, status):
    sweeps.write(folder, [{**CELL, "status": status}])


def _with_text_batches(folder):
    table = pq.read_table(folder / "results.parquet")
    texts = pa.array(["many"] * len(table))
    pq.write_table(table.set_column(table.schema.get_field_index("batch"), "batch", texts), folder / "results.parquet")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda f: (f / "sweep.json").unlink(), r"not a sweep \(no sweep\.json\); name a folder that `sweep` wrote"),
        (lambda f: (f / "sweep.json").write_text("[]"), r"sweep\.json: not a JSON object"),
        (
            lambda f: (f / "sweep.json").write_text('{"schema": "kernelscope/run/1"}'),
            "'kernelscope/run/1' is not kernelscope/sweep",
        ),
        (
            lambda f: (f / "sweep.json").write_text('{"schema": "kernelscope/sweep/2"}'),
            "written in schema 2, .* upgrade kernelscope",
        ),
        (lambda f: (f / "results.parquet").unlink(), r"results\.parquet: missing; run `kernelscope sweep` again"),
        (lambda f: (f / "results.parquet").write_bytes(b"PAR1nothing"), r"results\.parquet: damaged \("),
        (lambda f: _without(f, "power_w"), "no column power_w"),
        (lambda f: _with_status(f, "perhaps"), "'perhaps' is not a status of a cell"),
        (_with_text_batches, r"results\.parquet: .*many"),
    ],
)
def test_damage_is_said_in_one_line(folder, damage, expected):
    damage(folder)
    with pytest.raises(EvidenceError, match=expected) as caught:
        sweeps.read(folder)
    assert "\n" not in str(caught.value)


def test_cells_beside_which_others_worked_are_told():
    quiet = [{"foreign_cores": None}, {"foreign_cores": 0.1}]
    assert sweeps.disturbed(quiet) is None
    assert sweeps.disturbed([*quiet, {"foreign_cores": 0.5}]).startswith(
        "other processes kept 0.5 cores busy during 1 of 2 cells for which this is known: "
    )
    assert "0.5 to 1.8 cores busy during 2 of 3 cells" in sweeps.disturbed(
        [*quiet, {"foreign_cores": 1.8}, {"foreign_cores": 0.5}]
    )
