"""A sweep's folder: what it may be, and one line for each that it may not be. Nothing is started here."""

import json
from pathlib import Path

import pytest

from kernelscope.tracer.outside import conditions, experiments, memory
from kernelscope.tracer.outside.errors import InputError, UsageError
from kernelscope.tracer.outside.estimates import Estimates, plain
from kernelscope.tracer.outside.sweep import finished, opened

TEXT = 'framework = ["pytorch", "mxnet"]\nnetwork = ["lenet", "mlp"]\nthreads = 1\n'


@pytest.fixture
def experiment():
    return experiments.parse(TEXT, "small", "small.toml")


@pytest.fixture
def published():
    return []


def _opened(folder, experiment, published):
    return opened(folder, experiment, lambda _: ({}, None), published.append, lambda: pytest.fail("nobody else has it"))


def _finish(folder, cell, **changes):
    """Write the cell.json of a cell that took ten times what was expected."""
    content = {
        "schema": "kernelscope/cell/1", "cell": cell.key, "settings": cell.settings.as_dict(), "status": "done", "reason": None,
        "folder": f"cells/{cell.key}", "started": "2026-01-01T00:00:00+00:00", "seconds": 10 * plain(cell),
        "values": {"step_ns": 5_000_000},
    }  # fmt: skip
    file = folder / "cells" / cell.key / "cell.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**content, **changes}))


def test_only_cells_without_a_result_are_pending(tmp_path, experiment, published):
    first, second, third, _ = experiment.cells
    _finish(tmp_path, first)
    _finish(tmp_path, second, status="out of memory", reason="too large", values={})
    (tmp_path / "cells" / third.key).mkdir()  # killed before it was finished
    (tmp_path / "sweep.json").write_text("{}")
    with _opened(tmp_path, experiment, published) as sweep:
        assert sweep.pending(experiment.cells) == list(experiment.cells[2:])
        assert sweep.pending(experiment.cells, retry=True) == list(experiment.cells[1:])


def test_rows_say_why_cells_have_no_result(tmp_path, tmp_path_factory, published, monkeypatch):
    monkeypatch.setenv("KERNELSCOPE_HOME", str(tmp_path_factory.mktemp("no environments")))
    exclude = "[[exclude]]\nframework = 'mxnet'\nnetwork = 'mlp'\nreason = 'too slow'\n"
    experiment = experiments.parse(TEXT + exclude, "small", "small.toml")
    _finish(tmp_path, experiment.cells[0])
    (tmp_path / "sweep.json").write_text("{}")
    with _opened(tmp_path, experiment, published) as sweep:
        sweep.publish()
    rows = published[-1]
    assert [row["status"] for row in rows] == ["done", "not available", "not available", "left out"]
    assert rows[0]["reason"] is None
    assert "pytorch is not set up; run `kernelscope env create pytorch`" in rows[1]["reason"]
    assert rows[3]["reason"] == "too slow"
    assert rows[0]["step_ns"] == 5_000_000
    assert [row["framework"] for row in rows] == ["pytorch", "pytorch", "mxnet", "mxnet"]


def test_estimates_learn_from_what_cells_took(experiment):
    lenet, mlp, other, _ = experiment.cells
    estimates = Estimates()
    assert estimates.seconds(lenet) == plain(lenet)
    estimates.learn(lenet, 10 * plain(lenet))
    assert estimates.seconds(lenet) == pytest.approx(10 * plain(lenet))
    assert estimates.seconds(mlp) == pytest.approx(10 * plain(mlp)), "the same framework"
    assert estimates.seconds(other) == pytest.approx(10 * plain(other)), "any"
    estimates.learn(other, 2 * plain(other))
    assert estimates.seconds(other) == pytest.approx(2 * plain(other))
    assert estimates.total([lenet, other]) == pytest.approx(10 * plain(lenet) + 2 * plain(other))


def test_what_cannot_fit_is_expected_to_end_at_once():
    text = "framework = 'pytorch'\nnetwork = 'fcn5'\nbatch = 8192\nthreads = 1\n"
    tight, ample = (experiments.parse(text + limit, "x", "x").cells[0] for limit in ("memory_gib = 4", "memory_gib = 64"))
    assert 8192 * 26752 * 24 > 4 << 30
    assert plain(tight) < 10 < 600 < plain(ample)


def test_a_folder_of_something_else_is_left_alone(tmp_path, experiment, published):
    (tmp_path / "thesis.odt").write_text("years of work")
    with (
        pytest.raises(InputError, match=r"holds files that no sweep wrote, such as thesis\.odt"),
        _opened(tmp_path, experiment, published),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.odt"]


@pytest.mark.parametrize(
    ("changes", "error", "expected"),
    [
        ({"settings": {}}, UsageError, "was recorded with steps = None, now 10; name another folder"),
        ({"settings": None}, InputError, r"cell\.json: not what `sweep` writes; remove its folder"),
    ],
)
def test_a_cell_of_other_settings_is_refused(tmp_path, experiment, changes, error, expected):
    cell = experiment.cells[0]
    _finish(tmp_path, cell, **changes)
    with pytest.raises(error, match=expected):
        finished(tmp_path, cell)


def test_a_damaged_cell_is_named(tmp_path, experiment):
    cell = experiment.cells[0]
    _finish(tmp_path, cell)
    (tmp_path / "cells" / cell.key / "cell.json").write_text("{")
    with pytest.raises(InputError, match=r"cell\.json: cannot be read .*remove its folder to have it recorded again"):
        finished(tmp_path, cell)


def test_another_machine_is_refused(tmp_path, experiment, published):
    machine = {**conditions.machine(), "allowed_threads": 4096}
    (tmp_path / "sweep.json").write_text(json.dumps({"schema": "kernelscope/sweep/1", "machine": machine}))
    with (
        _opened(tmp_path, experiment, published) as sweep,
        pytest.raises(InputError, match=r"another machine \(allowed_threads 4096"),
    ):
        sweep.run([], lambda progress: None)


def test_memory_is_the_machines_or_less():
    lines = Path("/proc/meminfo").read_text().splitlines()
    total = 1024 * int(next(line for line in lines if line.startswith("MemTotal")).split()[1])
    assert 0 < memory.total() <= total
    assert memory.kills() >= 0
