"""Every column that a result has is described, and no other."""

import json

import pandas as pd
import pytest

import kernelscope as ks
from kernelscope.analysis.accounting import breakdowns
from kernelscope.analysis.device import tables as device
from kernelscope.analysis.device.roofline import BY as ROOFLINES
from kernelscope.analysis.device.roofline import roofline
from kernelscope.analysis.energy import replay
from kernelscope.analysis.energy.summary import Summary
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.trace import Trace, conform
from kernelscope.reports import columns, comparison_tables
from tests.places import ROOT

DATA = ROOT / "tests" / "data"
COMPARED = ("summary", "layers", "kinds", "kernels", "lines", "fairness", "settings", "passes")


def described(name):
    return {column.name for column in columns.TABLES[name].columns}


def shown(names, sides):
    """Names of columns, NAME in place of a side's label."""
    found = set()
    for name in names:
        side = next((side for side in sides if name == side or name.startswith(f"{side}_")), None)
        found.add(name.replace(side, "NAME", 1) if side else name)
    return found


def test_nothing_is_said_twice_and_everything_is_said():
    for name, table in columns.TABLES.items():
        names = [column.name for column in table.columns]
        assert len(names) == len(set(names)), name
        assert table.what.endswith("."), name
        assert all(column.meaning for column in table.columns), name


@pytest.mark.parametrize("name", COMPARED)
def test_tables_of_a_comparison(name):
    result = json.loads((DATA / "reports/compare.json").read_text())
    table = next(table for table in comparison_tables.comparison_tables(result) if table.name == name)
    found = shown(table.columns, result["frameworks"])
    if name == "summary":  # a comparison that was recorded on a processor, before energy was
        assert found <= described(name)
    else:
        assert found == described(name)


def test_every_comparison_table_is_described():
    result = json.loads((DATA / "reports/compare.json").read_text())
    assert [table.name for table in comparison_tables.comparison_tables(result)] == list(COMPARED)


def test_rows_of_an_explanation():
    result = json.loads((DATA / "reports/explain.json").read_text())
    assert set(result["rows"][0]) == described("account")
    assert set(result["findings"][0]) == described("findings")


@pytest.fixture(scope="module")
def capture():
    return ks.read(DATA / "cupti/cupti.records")


def test_breakdowns(capture):
    found = set()
    for by in breakdowns.BY:
        try:
            found |= set(ks.breakdown(capture, by=by).table.columns)
        except EvidenceError:
            found |= set(breakdowns.BY[by])
    assert found <= described("breakdown")
    # what steps and lines on a timeline have besides
    assert described("breakdown") - found <= {"window", "host_ns", "device_ns", "idle_ns", "profiled_ns"}


def test_what_a_device_did(capture):
    capture.memory = conform("memory", pd.DataFrame({"time_ns": [1, 2], "device": "cuda:0", "bytes": [8, -8], "address": 5}))
    capture.metrics = conform("metrics", [{"kernel": 0, "metric": "Achieved Occupancy", "unit": "%", "value": 50.0}])
    for name, rows in device.tables(capture, device.NAMES).items():
        assert not isinstance(rows, str), f"{name}: {rows}"
        assert set(rows[0]) == described(name), name


def test_rooflines():
    kernels = pd.DataFrame(
        {"start_ns": [0], "end_ns": [9], "duration_ns": 9, "count": 1, "device": "cpu", "name": "a", "layer": "b"}
    )
    trace = Trace(kernels=conform("kernels", kernels))
    found = set().union(*(roofline(trace, by).table.columns for by in ROOFLINES))
    assert found == described("roofline")


def test_energy():
    assert set(Summary.__dataclass_fields__) == described("energy")
    assert {*replay.COLUMNS, replay.NOTE} <= described("energy by layer")
