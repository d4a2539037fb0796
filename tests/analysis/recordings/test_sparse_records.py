"""A run.json that somebody changed or wrote: what it lacks is unknown, and without a framework it is refused in one line."""

import json
import shutil

import pytest

from kernelscope.cli.main import main
from tests.places import ROOT

RECORDED = ROOT / "tests" / "data" / "gpu" / "h200" / "lenet-pytorch-framework"


@pytest.fixture
def sparse(tmp_path):
    """A real run whose record has nothing but what its passes are."""
    folder = shutil.copytree(RECORDED, tmp_path / "sparse")
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({name: record[name] for name in ("schema", "framework", "passes")}))
    return folder


@pytest.mark.parametrize("command", [["breakdown"], ["advise"], ["report", "--format", "json"], ["explain", str(RECORDED)]])
def test_what_a_record_lacks_is_unknown(command, sparse):
    assert main([*command, str(sparse)]) == 0


def test_without_a_framework_it_is_refused(sparse, capsys):
    (sparse / "run.json").write_text('{"schema": "kernelscope/run/1", "passes": {}}')
    assert main(["breakdown", str(sparse)]) == 3
    assert capsys.readouterr().err.endswith("run.json: Object missing required field framework; record it again\n")
