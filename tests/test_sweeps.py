"""Sweeps with real frameworks: killed at random moments and resumed, out of memory, with what is not there, and by turns."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import pandas as pd
import psutil
import pytest

from kernelscope.analysis import EvidenceError
from kernelscope.analysis.comparisons import sweeps
from kernelscope.analysis.recordings.reading import read
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.outside import environments

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "kernelscope.cli.main", "sweep"]
KILLS = int(os.environ.get("KERNELSCOPE_KILLS", "3"))
TINY = """
title = "tiny"
framework = ["onednn", "cntk", "jax"]
network = "lenet"
mode = "infer"
batch = [1, 2]
threads = 1
steps = 7
warmup = 0
repeats = 2
[[exclude]]
framework = "jax"
reason = "to keep it short"
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The file of a sweep that takes seconds, and its folder after nothing disturbed it, with the time that took."""
    for framework in ("onednn", "cntk"):
        if environments.find(framework) is None:
            reason = f"no environment for {framework}; run `kernelscope env create {framework}`"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    file = tmp_path_factory.mktemp("tiny") / "tiny.toml"
    file.write_text(TINY)
    start = time.monotonic()
    done = _sweep(file, file.parent / "undisturbed")
    assert done.returncode == 0, done.stderr
    return file, file.parent / "undisturbed", time.monotonic() - start


def _sweep(file, folder, *options):
    """Run a sweep into a folder that is named from the one that it is in."""
    command = [*COMMAND, str(file), "-o", folder.name, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder.parent)


def _cell_files(folder):
    return {path.parent.name: path.read_bytes() for path in folder.glob("cells/*/cell.json")}


def _facts(folder):
    """What must be the same however often a sweep was interrupted: all but times."""
    cells = sweeps.read(folder).cells
    facts = []
    for row in cells.to_dict("records"):
        steps = None
        if row["status"] == "done":
            run = Run(folder / row["folder"])
            assert run.complete
            steps = [len(data.measured) for data in run.passes("clean")]
            assert row["repeats"] == len(steps)
        facts.append((row["cell"], row["status"], row["reason"], row["folder"], row["version"], row["lines_of_code"], steps))
    return facts


@pytest.mark.long
def test_a_sweep_that_is_killed_at_random_moments_has_the_cells_of_one_that_was_not(tiny, tmp_path):
    file, undisturbed, seconds = tiny
    expected = _facts(undisturbed)
    assert [fact[1] for fact in expected].count("done") == 4
    moments, kills, folder = random.Random(7), 0, tmp_path / "killed"
    while kills < KILLS:
        before = _cell_files(folder)
        process = subprocess.Popen([*COMMAND, str(file), "-o", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            process.communicate(timeout=moments.uniform(0.0, 0.7 * seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        after = _cell_files(folder)
        assert {key: after[key] for key in before} == before, "what was finished is not recorded again"
        if (folder / "results.parquet").exists():
            cells = sweeps.read(folder).cells
            assert list(cells["cell"]) == [fact[0] for fact in expected]
            told = set(cells["cell"][cells["status"] == "done"])
            assert set(before) <= told <= set(after)
        if process.returncode == 0:  # it was over before the moment came: the next one begins anew
            assert _facts(folder) == expected
            folder = tmp_path / f"killed{kills}"
    done = _sweep(file, folder)
    assert done.returncode == 0, done.stderr
    assert _facts(folder) == expected
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "cells", "results.parquet", "sweep.json"]
    assert not list(folder.rglob("*.new"))


def test_ctrl_c_ends_a_sweep_in_one_line(tiny, tmp_path):
    file, _, _ = tiny
    folder = tmp_path / "interrupted"
    command = [*COMMAND, str(file), "-o", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(folder.glob("cells/*/clean/1/child.log")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stderr.splitlines()[-1] == "kernelscope: interrupted"
    assert not (folder / ".staged").exists()
    assert "not run yet" in set(sweeps.read(folder).cells["reason"])
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(p.info["cmdline"] or [])]
    records = [json.loads(path.read_text()) for path in folder.glob("cells/*/run.json")]
    assert any("interrupted" in (record["reason"] or "") for record in records)


def test_values_are_those_of_the_run_folder(tiny):
    _, folder, _ = tiny
    row = sweeps.read(folder).done().iloc[0]
    rates, windows = [], []
    for repeat in ("1", "2"):
        rows = [json.loads(line) for line in (folder / row["folder"] / "clean" / repeat / "steps.jsonl").read_text().splitlines()]
        times = {}
        for step in rows:
            if not step["warmup"]:
                times.setdefault(step["window"], []).append(step["end_ns"] - step["start_ns"])
        assert sorted(map(len, times.values())) == [2, 5], "7 steps are a window of 5 and one of 2"
        means = [statistics.fmean(values) for values in times.values()]
        windows += means
        rates.append(row["batch"] / statistics.median(means) * 1e9)
    assert row["step_ns"] == round(statistics.median(windows))
    assert list(row["repeat_samples_per_second"]) == pytest.approx(rates, rel=1e-5)  # steps are whole ns
    assert row["samples_per_second"] == pytest.approx(row["batch"] / row["step_ns"] * 1e9)
    assert row["step_low_ns"] <= row["step_ns"] <= row["step_high_ns"]
    assert row["samples_per_second_low"] == pytest.approx(row["batch"] / row["step_high_ns"] * 1e9)
    reports = [json.loads((folder / row["folder"] / "clean" / n / "child.json").read_text()) for n in ("1", "2")]
    peak = max(report["memory"]["peak_resident_bytes"] for report in reports)
    assert row["host_memory_mib"] == pytest.approx(peak / 2**20)
    assert row["lines_of_code"] == reports[0]["lines_of_code"] > 0
    samples = pd.concat(pd.read_parquet(folder / row["folder"] / "clean" / n / "samples.parquet") for n in ("1", "2"))
    by_core = samples[samples["metric"] == "core_busy"].groupby("core")["value"].mean()
    found = row["processor_utilisation"]  # windows of a few ms may end before the first sample: unknown, then
    assert found is None if by_core.empty else list(found) == pytest.approx(list(by_core))


def test_restarts_of_the_frameworks_take_turns(tiny):
    _, folder, _ = tiny
    begun = {}
    for framework in ("onednn", "cntk"):
        run = folder / "cells" / f"{framework}-lenet-infer-b1-cpu-t1"
        for repeat in (1, 2):
            first = json.loads((run / "clean" / str(repeat) / "child.json").read_text())["anchors"][0]
            begun[framework, repeat] = first["monotonic_ns"] if isinstance(first, dict) else first[0]
    order = sorted(begun, key=begun.get)
    assert order == [("onednn", 1), ("cntk", 1), ("cntk", 2), ("onednn", 2)]


def test_its_cells_are_run_folders_and_it_is_none(tiny):
    _, folder, _ = tiny
    with pytest.raises(EvidenceError, match=r"a sweep; name one of its cells, such as .*cells/cntk-lenet-infer-b1-cpu-t1"):
        Run(folder)
    with pytest.raises(EvidenceError, match="a sweep; name one of its cells"):
        read(folder)


def test_a_finished_sweep_runs_nothing_and_other_settings_are_refused(tiny, tmp_path):
    file, folder, _ = tiny
    before = _cell_files(folder)
    done = _sweep(file, folder, "--format", "csv")
    assert done.returncode == 0
    assert "4 of 4 cells already have their result" in done.stderr
    assert len(done.stdout.splitlines()) == 7
    assert _cell_files(folder) == before
    other = tmp_path / "other.toml"
    other.write_text(TINY.replace("steps = 7", "steps = 8"))
    refused = _sweep(other, folder)
    assert refused.returncode == 2
    assert "was recorded with steps = 7, now 8; name another folder" in refused.stderr
    assert _cell_files(folder) == before


def test_failures_are_results_with_their_reason(tmp_path):
    if environments.find("onednn") is None:
        pytest.skip("no environment for onednn; run `kernelscope env create onednn`")
    file, folder = tmp_path / "failures.toml", tmp_path / "out"
    file.write_text(
        """
        framework = "onednn"
        repeats = 1
        steps = 5
        warmup = 0
        threads = 1
        [[group]] # more than it may have
        network = "lenet"
        mode = "infer"
        batch = 65536
        memory_gib = 0.5
        [[group]] # what the program does not have
        network = "lenet"
        mode = "train"
        [[group]]
        network = "vgg16"
        mode = "infer"
        [[group]]
        network = "lenet"
        mode = "infer"
        device = "cuda"
        devices = 64
        [[group]]
        network = "lenet"
        mode = "infer"
        layout = "channels_last"
        [[group]]
        network = "lenet"
        mode = "infer"
        batch = 3
        timeout = 0.01
        """
    )
    done = _sweep(file, folder)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    cells = sweeps.read(folder).cells
    assert list(cells["status"]) == ["out of memory", *["not available"] * 4, "timeout"]
    expected = [
        "memory",
        "not supported in mode train",
        "network vgg16 is not supported",
        "needs 64 GPU(s)",
        "layout channels_last is not supported",
        "0.01 s",
    ]
    assert all(text in reason for text, reason in zip(expected, cells["reason"], strict=True))
    assert cells["step_ns"].isna().all()
    again = _sweep(file, folder, "--retry-failed", "--only", "batch=3")
    assert "[1/1] onednn-lenet-infer-b3-cpu-t1: timeout" in again.stderr
    assert sweeps.read(folder).cells["status"].tolist() == list(cells["status"])


def test_a_budget_that_nothing_fits_and_cells_that_are_not_asked_for(tiny, tmp_path):
    file, _, _ = tiny
    done = _sweep(file, tmp_path / "none", "--budget", "1s")
    assert done.returncode == 0, done.stderr
    reasons = sweeps.read(tmp_path / "none").cells.set_index("cell")["reason"]
    assert reasons["onednn-lenet-infer-b1-cpu-t1"] == "not run: no time was left in the budget"
    assert reasons["jax-lenet-infer-b1-cpu-t1"] == "to keep it short"
    done = _sweep(file, tmp_path / "none", "--only", "framework=onednn,batch=2")
    cells = sweeps.read(tmp_path / "none").cells
    assert list(cells["cell"][cells["status"] == "done"]) == ["onednn-lenet-infer-b2-cpu-t1"]
    assert set(cells["reason"][cells["status"] == "left out"]) == {"not run yet", "to keep it short"}
