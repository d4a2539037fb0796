"""Python that pages show does what they say."""

import json
import re
from pathlib import Path

import pandas as pd

from kernelscope.reports import comparison_tables

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf8"), re.MULTILINE | re.DOTALL)


def run(code):
    space = {}
    exec(compile(code, "page", "exec"), space)
    return space


def test_the_figure_and_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    result = json.loads((DATA / "reports/compare.json").read_text())
    comparison_tables.write_csv_folder(result, tmp_path / "out/lenet/tables")
    (tmp_path / "out/lenet/compare.json").write_text(json.dumps(result))
    drawn = run(blocks("add-report.md")[0])
    assert (tmp_path / "phases.png").stat().st_size > 5_000
    assert len(drawn["names"]) == 4
    layers = run(blocks("tables.md")[0])["layers"]
    assert isinstance(layers, pd.DataFrame)
    assert {f"{name}_time_ns" for name in drawn["names"]} <= set(layers)
