"""Run folders made of real captures: which repeat is analysed, what the cache may and may not do, incomplete runs."""

import json
import re
import shutil

import pytest

import kernelscope as ks
from kernelscope.analysis.accounting.statistics import mean_step_ns
from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.recordings.run import NOT_ENDED, Run
from kernelscope.analysis.trace import text_columns
from kernelscope.tracer.outside import locks
from tests.places import ROOT

DATA = ROOT / "tests" / "data" / "pytorch" / "lenet-train"


def _slower(source, target, factor):
    """Copy a pass, with its steps lasting `factor` times as long (they start later, too, so that they do not overlap)."""
    shutil.copytree(source, target)
    steps = [json.loads(line) for line in (source / "steps.jsonl").read_text().splitlines()]
    origin = steps[0]["start_ns"]
    for step in steps:
        for edge in ("start_ns", "end_ns"):
            step[edge] = origin + round((step[edge] - origin) * factor)
    (target / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))


@pytest.fixture
def folder(tmp_path):
    """A run whose clean steps are as long as those of the second of three repeats of the kernels pass."""
    run = tmp_path / "run"
    for repeat, factor in enumerate((3.0, 1.0, 1.5), start=1):
        _slower(DATA, run / "kernels" / str(repeat), factor)
    _slower(DATA, run / "clean" / "1", 1.0)
    network = json.loads((DATA / "child.json").read_text())["network"]
    names = {"kernels": ["kernels/1", "kernels/2", "kernels/3"], "clean": ["clean/1"]}
    record = {
        "schema": "kernelscope/run/1", "framework": "pytorch", "network": network, "conditions": "as it comes", "complete": True,
        "options": {"network": "lenet", "mode": "train", "batch": network.get("batch", 64)}, "unavailable": {},
        "passes": {name: {"status": "complete", "folders": folders} for name, folders in names.items()},
    }  # fmt: skip
    (run / "run.json").write_text(json.dumps(record))
    return run


def test_the_repeat_closest_to_the_clean_pass_is_analysed(folder):
    run = Run(folder)
    assert run.kernels_pass().folder.name == "2"
    assert ks.breakdown(run.trace(), "layer").step_ns == mean_step_ns(run.passes("clean")[0].measured)


def test_a_run_is_called_by_its_label_and_without_one_by_its_framework(folder):
    assert Run(folder).name == "pytorch"
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "label": "planted"}))
    labelled = Run(folder)
    assert (labelled.name, labelled.framework) == ("planted", "pytorch")
    assert len(labelled.trace().kernels)


def test_a_repeat_that_did_not_come_to_its_end_is_passed_over(folder):
    (folder / "kernels" / "2" / "child.json").unlink()
    assert Run(folder).kernels_pass().folder.name == "3"


def test_the_cache_gives_the_same_trace_and_is_not_needed(folder):
    first = ks.read(folder)
    assert (folder / "trace" / "2" / "kernels.parquet").is_file()
    again = ks.read(folder)
    for name in ("steps", "ranges", "operators", "kernels"):
        assert text_columns(getattr(first, name)).equals(text_columns(getattr(again, name))), name
    assert (first.info, first.diagnostics) == (again.info, again.diagnostics)
    shutil.rmtree(folder / "trace")
    assert text_columns(ks.read(folder).kernels).equals(text_columns(first.kernels))


@pytest.mark.parametrize("damage", [b"", b"PAR1 not really", None])
def test_a_damaged_cache_is_made_again(folder, damage):
    first = ks.read(folder)
    path = folder / "trace" / "2" / "kernels.parquet"
    path.unlink() if damage is None else path.write_bytes(damage)
    assert text_columns(ks.read(folder).kernels).equals(text_columns(first.kernels))


def test_changed_evidence_is_read_again(folder):
    before = ks.read(folder).kernels
    stream = folder / "kernels" / "2" / "stdout.raw"
    lines = stream.read_text().splitlines(keepends=True)
    dropped = next(number for number, line in enumerate(lines) if ",exec," in line and number > len(lines) // 2)
    stream.write_text("".join(lines[:dropped] + lines[dropped + 1 :]))
    after = ks.read(folder).kernels
    assert (before["library"] == "onednn").sum() - (after["library"] == "onednn").sum() == 1


def test_a_run_without_a_kernels_pass_says_why(folder):
    record = json.loads((folder / "run.json").read_text())
    record["passes"]["kernels"] = {"status": "failed", "folders": [], "reason": "kernels pass: interrupted"}
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(EvidenceError, match="no kernels pass: kernels pass: interrupted; run it again"):
        ks.read(folder)


def test_the_host_lines_are_missing_with_their_reason(folder):
    with pytest.raises(EvidenceError, match="no host lines in this capture: no lines pass was recorded"):
        ks.breakdown(ks.read(folder), "line")


@pytest.mark.parametrize("content", ["null", '{"step": 1}\n null\n', "{}", '{"thread": %s}' % ("9" * 5000)])
def test_a_table_that_is_none_is_named(folder, content):
    """Of null pyarrow makes a table that crashes whoever reads it."""
    file = folder / "clean" / "1" / "steps.jsonl"
    file.write_text(content)
    with pytest.raises(EvidenceError, match=re.escape(f"{file}: ") + ".*; record the run again$"):
        Run(folder).clean_steps()


def test_steps_that_are_missing_or_end_before_they_begin_are_said(folder):
    file = folder / "clean" / "1" / "steps.jsonl"
    report = file.with_name("child.json")
    steps = [json.loads(line) for line in file.read_text().splitlines()]
    measured = sum(not step["warmup"] for step in steps)
    report.write_text(json.dumps({**json.loads(report.read_text()), "measured": measured}))
    assert len(Run(folder).clean_steps()) == measured
    file.write_text("".join(json.dumps(step) + "\n" for step in steps[:-1]))
    with pytest.raises(EvidenceError, match=f"has {measured - 1} measured steps instead of {measured}"):
        Run(folder).clean_steps()
    steps[-1]["end_ns"] = steps[-1]["start_ns"] - 1
    file.write_text("".join(json.dumps(step) + "\n" for step in steps))
    with pytest.raises(EvidenceError, match=f"1 of {len(steps)} steps end before they begin"):
        Run(folder).clean_steps()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("threads", {"1": {}}, r"Expected str, got object - at \$\.threads\[\.\.\.\]"),
        ("operator_files", 5, r"Expected array, got int - at \$\.operator_files"),
        ("anchors", [], r"Expected array of length >= 1 - at \$\.anchors"),
        ("anchors", [{"monotonic_ns": 1, "wall_ns": "x"}], r"Expected int, got str - at \$\.anchors\[0\]\.wall_ns"),
    ],
)
def test_a_report_whose_parts_are_of_other_types_is_named(folder, name, value, said):
    file = folder / "kernels" / "1" / "child.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with pytest.raises(EvidenceError, match=re.escape(f"{file}: ") + said + "; record it again"):
        Run(folder).trace()


def test_of_a_run_that_was_killed_it_is_said_that_it_is_not_to_be_shared(folder):
    """Whoever recorded it looks through it for secrets at its end."""
    record = json.loads((folder / "run.json").read_text())
    record.update(passes={}, complete=False, reason=NOT_ENDED)
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(
        EvidenceError, match="was not searched for secrets; run it again with --force, and do not share this folder"
    ):
        Run(folder).trace()


def test_of_a_run_that_is_still_recorded_it_is_said_to_wait(folder):
    record = json.loads((folder / "run.json").read_text())
    record.update(passes={}, complete=False, reason=NOT_ENDED)
    (folder / "run.json").write_text(json.dumps(record))
    said = "it is still being recorded; wait until it ends, `kernelscope watch .*` shows"
    with locks.exclusive_folder(folder), pytest.raises(EvidenceError, match=said) as error:
        Run(folder).trace()
    assert "run it again" not in str(error.value)


def test_where_nothing_else_is_known_compiling_is_told(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(ROOT / "tests/data/gpu/h200/lenet-pytorch-framework", folder)
    record = json.loads((folder / "run.json").read_text())
    record["passes"].pop("kernels")
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(EvidenceError, match=r"a step takes [\d.]+ ms \(the median of \d+\); where its time goes is unknown"):
        Run(folder).trace()
    report = folder / "clean" / "1" / "child.json"
    noted = {"count": 7, "ns": 10_290_000_000, "functions": [{"name": "step", "count": 7, "why": "a shape changes"}]}
    report.write_text(json.dumps({**json.loads(report.read_text()), "compiled": noted}))
    with pytest.raises(EvidenceError, match=r"; functions were recompiled meanwhile, which took 10.29 s; where its time"):
        Run(folder).trace()
