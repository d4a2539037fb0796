"""Ranks of a job that somebody's launcher starts: each into a folder of its own, the same steps, and who waits for whom."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.ranks.parts import JOB_PARTS
from kernelscope.analysis.recordings.run import Run
from kernelscope.tracer.inside.profiling import ranks
from kernelscope.tracer.outside import environments
from kernelscope.tracer.outside.errors import ChildError
from tests import forked

SCRIPT = Path(__file__).parent / "children" / "train_ranks.py"
PLANTED_S = 0.02


@pytest.fixture(scope="module")
def launcher():
    try:
        python = str(environments.resolve("pytorch", None).python)
        return [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    except ChildError as error:
        pytest.skip(str(error))


def profiled(folder, launcher, *options, seconds=PLANTED_S):
    return forked.run("profile", "-o", str(folder), *options, "--", *launcher, str(SCRIPT), str(seconds), timeout=300)


def ended_well(done):
    """Fail where a command failed; skip where a thread of gloo ended a rank on its way out, after all that was recorded."""
    if "terminate called without an active exception" in done.stderr:
        pytest.skip("a thread of gloo ended a rank on its way out, as happens on busy machines")
    assert done.returncode == 0, done.stderr


def steps(folder, name):
    return [json.loads(line) for line in (folder / name / "1" / "steps.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_every_rank_is_recorded_and_the_late_one_is_named(launcher, tmp_path):
    done = profiled(tmp_path / "job", launcher, "--ranks", "all")
    ended_well(done)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["0", "20", "40", "60"]
    folders = [tmp_path / "job" / f"rank{rank}" for rank in (0, 1)]
    assert not (tmp_path / "job" / "run.json").exists()
    runs = [Run(folder) for folder in folders]
    assert [(run.complete, run.record["distributed"]) for run in runs] == [
        (True, {"rank": rank, "world_size": 2}) for rank in (0, 1)
    ]
    for name in ("clean", "layers", "kernels", "lines"):  # the same steps of the script, or ranks would wait for our passes
        mine, theirs = ([(row["step"], row["warmup"]) for row in steps(folder, name)] for folder in folders)
        assert mine == theirs
    result = job(folders, workers=1)
    assert result["what_if"]["late_ranks"] == [1]
    saved = {row["name"]: row["saved_ns"] for row in result["what_if"]["changes"]}
    # on a busy machine the other rank is late itself for a part of it
    assert saved["no late rank"] == pytest.approx(PLANTED_S * 1e9, rel=0.6)
    largest = max(result["blame"], key=lambda row: row["ns"])
    assert (largest["rank"], largest["cause"], largest["where"], largest["name"]) == (1, "host", "in layers", "1 forward")
    for row in result["ranks"]:
        assert sum(row[part] for part in JOB_PARTS) == row["step_ns"]
    assert "Rank 1 makes the others wait most" in done.stderr.replace("\n", " ")
    assert (tmp_path / "job" / "ranks.html").is_file()


@pytest.mark.slow
@pytest.mark.long
def test_only_the_ranks_that_were_asked_for(launcher, tmp_path):
    done = profiled(tmp_path / "job", launcher, "--ranks", "1", "--quiet", seconds=0)
    ended_well(done)
    assert sorted(path.name for path in (tmp_path / "job").glob("rank*")) == ["rank1"]
    assert Run(tmp_path / "job" / "rank1").complete


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (None, None)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (None, None)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, (1, 2)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, (None, None)),
        ({"PMI_RANK": "2"}, (2, None)),
        ({"RANK": "x"}, (None, None)),
    ],
)
def test_what_launchers_say_of_a_rank(variables, expected):
    assert ranks.launched(variables) == expected


@pytest.mark.parametrize(
    ("rank", "chosen", "expected"),
    [(None, None, True), (0, None, True), (1, None, False), (1, "all", True), (7, "0,7", True), (1, "0,7", False)],
)
def test_which_ranks_are_recorded(rank, chosen, expected):
    assert ranks.wanted(rank, chosen) is expected


@pytest.mark.long
@pytest.mark.slow
def test_a_launcher_that_starts_us(launcher, tmp_path):
    """As srun and mpirun do it: each rank's own kernelscope writes into the job's folder; one that is not wanted just runs."""
    ours = ["-m", "kernelscope.cli.main", "profile", "-o", str(tmp_path / "job"), "--ranks", "1", "--quiet", "--"]
    line = [*launcher, "--no-python", sys.executable, *ours, launcher[0], str(SCRIPT), "0"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    ended_well(done)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["0", "20", "40", "60"]
    run = Run(tmp_path / "job" / "rank1")
    assert (run.complete, run.record["distributed"]) == (True, {"rank": 1, "world_size": 2})
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["rank1"]
