import json
import shutil
from pathlib import Path

import pytest

from kernelscope.analysis import published
from kernelscope.analysis.attribution.lines import statements
from kernelscope.analysis.comparisons import sweeps
from kernelscope.reports.sweeps import cells, tables
from kernelscope.reports.sweeps import published as others

DATA = Path(__file__).parents[2] / "data" / "lines"


def rows(folder):
    return cells.rows([sweeps.read(folder)])


def shown(view):
    return {
        row[0].text: {column.title: cell for column, cell in zip(view.columns[1:], row[1:], strict=True)} for row in view.rows
    }


def test_the_thesis_has_frameworks_in_rows_and_networks_in_columns(thesis):
    views = tables.tables("thesis", rows(thesis))
    table = shown(views[0])
    assert list(table) == ["pytorch", "tensorflow", "mxnet", "cntk", "keras-tensorflow"]
    cell = table["pytorch"]["lenet"]
    assert cell.value == pytest.approx(9000 * 2**0.5, rel=1e-6)
    assert (cell.text, cell.note) == ("12,728", "12,238 to 13,258")
    failed = table["cntk"]["resnet50"]
    assert (failed.text, failed.value) == ("out of memory", None)
    power = next(view for view in views if view.caption.startswith("Power"))
    assert (power.rows, power.note) == ([], "unknown for every cell")


def test_scaling_factors_are_against_the_first_setup(gpus):
    view = next(view for view in tables.tables("thesis", rows(gpus)) if view.key == "measured-factors")
    assert shown(view)["mxnet"]["lenet, training, batch 64: 2 GPUs"].value == pytest.approx(2**0.8, rel=1e-6)


def test_shi_has_seconds_by_batch_and_threads(shi):
    (view,) = tables.tables("shi2016", rows(shi))
    assert view.caption == "fcn5, training: seconds per mini-batch"
    assert [column.title for column in view.columns[1:4]] == ["batch 16, 1 thread", "batch 16, 2 threads", "batch 16, 4 threads"]
    table = shown(view)
    assert table["pytorch"]["batch 64, 4 threads"].value == pytest.approx(64 / (120 * 2), rel=1e-6)
    assert {table["tensorflow"][f"batch 64, {n}"].text for n in ("1 thread", "2 threads", "4 threads")} == {"out of memory"}


def test_the_eleven_have_the_time_of_the_whole_work(make_cell, make_sweep):
    folder = make_sweep("eleven", [make_cell("pytorch", "cifarcnn", autotune=on) for on in (True, False)], "eleven")
    (view,) = tables.tables("eleven", rows(folder))
    assert "seconds for 500,000 samples" in view.caption
    assert shown(view)["pytorch"]["CPU, autotuned"].value == pytest.approx(500_000 / (450 * 2**0.5), rel=1e-6)
    assert "CPU, not autotuned" in shown(view)["pytorch"]


def test_backends_are_columns(make_cell, make_sweep):
    made = [make_cell(name, "mlp", processor_utilisation=[0.5, 1.0]) for name in ("keras-tensorflow", "keras-torch")]
    times, _, busy = tables.tables("keras_backends", rows(make_sweep("keras", made)))
    assert [column.title for column in times.columns] == ["", "keras-tensorflow", "keras-torch"]
    assert busy.rows[0][1].value == pytest.approx(75.0)


def test_levels_have_lines_of_code_beside_times(levels):
    (view,) = tables.tables("abstraction", rows(levels))
    assert [[cell.text for cell in row[:3]] for row in view.rows] == [
        ["onednn", "library", "190"], ["pytorch", "framework", "60"], ["tensorflow", "framework", "55"],
        ["keras-tensorflow", "interface", "31"], ["keras-torch", "interface", "—"],
    ]  # fmt: skip
    assert view.rows[-1][3].text == "not available"


def test_cells_left_out_are_counted_and_no_column(make_cell, make_sweep):
    left = [make_cell("cntk", name, "left out", reason="excluded") for name in ("lenet", "mlp")]
    found = rows(make_sweep("some", [make_cell("pytorch", "lenet"), *left]))
    assert list(shown(tables.tables(None, found)[0])) == ["pytorch"]
    assert [[cell.text for cell in row] for row in tables.failures(found).rows] == [
        ["(cells left out)", "left out", "excluded", "2"]
    ]


def test_published_tables_hold_published_values_only(thesis):
    stated = others.chosen(rows(thesis))
    views = others.tables(stated)
    assert all("other hardware, other versions" in view.caption for view in views)
    throughput = shown(views[0])
    assert throughput["MXNet"]["LeNet on MNIST: cpu"].value == 1000.0
    assert throughput["PyTorch"]["AlexNet on ImageNet: 1xP100"].text.replace(",", "").isdigit()
    odd = throughput["MXNet"]["LeNet on MNIST: 2xP100"]
    assert (odd.text, odd.note) == ("34,137", "slower than one GPU of the same kind, in the source")
    memory = next(view for view in views if "GPU memory" in view.caption)
    assert not any(column.title.endswith(": cpu") for column in memory.columns), "0 by definition is not shown as a measurement"
    assert "0 by definition" in memory.caption
    measured = {cell.text for row in tables.tables("thesis", rows(thesis))[0].rows for cell in row}
    assert not measured & {cell.text for row in views[0].rows for cell in row if cell.value is not None and len(cell.text) > 4}


def test_what_was_not_run_is_said(make_cell, make_sweep):
    found = rows(make_sweep("google", [make_cell("pytorch", "googlenet_cifar10", step_ns=10**9)], "thesis"))
    table = shown(others.tables(others.chosen(found))[0])
    assert (table["TensorFlow"]["GoogLeNet on CIFAR10: cpu"].text, table["TensorFlow"]["GoogLeNet on CIFAR10: cpu"].value) == (
        "not run",
        None,
    )


def test_frameworks_that_a_source_spells_in_two_ways_are_one_row(make_cell, make_sweep):
    found = rows(make_sweep("spelled", [make_cell("pytorch", name, step_ns=10**8) for name in ("cifarcnn", "gru")], "eleven"))
    table = shown(others.tables(others.chosen(found))[0])
    assert [name for name in table if name.lower() == "pytorch"] == ["PyTorch"]
    assert [table["PyTorch"][f"{work}: 1xK80"].value for work in ("CNN on CIFAR10", "GRU on IMDB")] == [169.0, 31.0]
    assert table["PyTorch"]["GRU on IMDB: 1xK80"].note == "with cuDNN's recurrent kernels"


def test_published_lines_stand_side_by_side():
    table = shown(others.line_tables())
    fit = next(cells for source, cells in table.items() if source.startswith("model.fit("))
    assert {title: cell.text for title, cell in fit.items()} == {
        "keras tensorflow cpu": "1,326.041", "keras mxnet mkl cpu": "643.040", "keras tensorflow gpu": "972.182",
        "keras mxnet gpu": "—",
    }  # fmt: skip


def test_ratios_and_ranks_have_columns_of_their_own(thesis):
    groups = published.compare(rows(thesis))
    titles = [column.title for column in others.ratios(groups).columns]
    assert titles[-2:] == ["published ratio (other hardware, other versions)", "measured ratio"]
    ranks = others.ranks([group for group in groups if group.same_kind])
    lenet = next(row for row in ranks.rows if row[0].text == "LeNet on MNIST: cpu")
    assert lenet[4].value == 4
    assert lenet[5].value == pytest.approx(-0.4)


def test_host_lines_of_the_same_source_share_rows(make_cell, make_sweep):
    folder = make_sweep("keras", [make_cell(name, "mlp", folder=f"cells/{name}") for name in ("keras-tensorflow", "keras-torch")])
    for name, interpreter in (("keras-tensorflow", "python311"), ("keras-torch", "python38")):
        lines = folder / "cells" / name / "lines" / "1"
        lines.mkdir(parents=True)
        shutil.copy(DATA / interpreter / "lines.json", lines)
        (lines / "child.json").write_text("{}")
        steps = [{"step": n, "window": 0, "warmup": False, "thread": 1, "start_ns": n, "end_ns": n + 1} for n in range(4)]
        (lines / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
        record = {"schema": "kernelscope/run/1", "framework": name, "passes": {"lines": {"folders": ["lines/1"]}}}
        (folder / "cells" / name / "run.json").write_text(json.dumps(record))
    view = tables.tables("keras_backends", rows(folder))[-1]
    assert [column.title for column in view.columns] == ["statement", "keras-tensorflow", "keras-torch"]
    expected = {interpreter: lines_of(interpreter) for interpreter in ("python311", "python38")}
    for row in view.rows:
        place = int(row[0].note.rpartition(":")[2])
        for cell, times in zip(row[1:], expected.values(), strict=True):
            assert cell.value == (pytest.approx(times[place] / 4) if place in times else None)
    assert len(view.rows) > 5


def lines_of(interpreter):
    table = statements(DATA / interpreter)
    return dict(zip(table["line"], table["time_ns"], strict=True))
