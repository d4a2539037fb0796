"""Captures read in this process, in several, and on a Dask cluster: the same bytes, whoever reads and whoever dies meanwhile."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks import engines
from kernelscope.analysis.ranks.job import job
from tests.places import ROOT, corpus

DATA = ROOT / "tests" / "data" / "ranks"


def captures(name="sleep"):
    return sorted(DATA.glob(f"{name}_*"))


def said(paths, **options):
    """Return a job's result as text, without where its captures lie."""
    result = job(paths, **options)
    for row in result["ranks"]:
        row["path"] = Path(row["path"]).name
    return json.dumps(result, sort_keys=True)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    before = dict(os.environ)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
        yield made
    # what Dask sets for its workers (threads, the heap) stays in this process, and would reach all programs that tests start
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.long
def test_any_engine_and_order_gives_the_same_bytes(cluster, tmp_path):
    paths = sorted(corpus("ranks/megatron_tp8").glob("*.json.gz"))
    alone = said(paths, workers=1)
    assert said(paths[::-1], workers=2, folder=tmp_path / "two") == alone
    assert said(paths, folder=tmp_path / "dask", scheduler=cluster.scheduler_address) == alone
    made = [sorted((path.name, path.read_bytes()) for path in (tmp_path / name).iterdir()) for name in ("two", "dask")]
    headers = [[(name, json.loads(text) | {"path": ""}) for name, text in files if name.endswith("-0.json")] for files in made]
    assert headers[0] == headers[1]
    assert [name for name, _ in made[0]] == [name for name, _ in made[1]]


@pytest.mark.parametrize(
    "ending",
    [
        "-0.json",
        "-0.collectives.parquet",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("-0.segments.parquet", ".json")),
    ],
)
def test_summaries_that_a_power_cut_emptied_are_made_anew(tmp_path, ending):
    alone = said(captures(), workers=1, folder=tmp_path)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    next(tmp_path.glob(f"*{ending}")).write_bytes(b"")
    assert said(captures(), workers=1, folder=tmp_path) == alone
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == sizes


@pytest.mark.parametrize("ending", ["-0.collectives.parquet", "-0.json"])
def test_a_summary_of_other_content_is_made_anew(tmp_path, ending):
    """Its size is as before: one byte differs."""
    alone = said(captures(), workers=1, folder=tmp_path)
    file = next(tmp_path.glob(f"*{ending}"))
    whole = file.read_bytes()
    file.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    assert said(captures(), workers=1, folder=tmp_path) == alone
    assert file.read_bytes() == whole


@pytest.mark.long
def test_the_environment_names_the_cluster(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv(engines.ADDRESS, cluster.scheduler_address)
    assert said(captures(), folder=tmp_path / "kept") == said(captures(), workers=1, scheduler=cluster.scheduler_address)
    monkeypatch.setenv(engines.ADDRESS, "tcp://127.0.0.1:9")
    with pytest.raises(EvidenceError, match="no Dask scheduler answers there"):
        job(captures())


def test_what_is_there_is_not_read_again(tmp_path):
    first = said(captures(), workers=1, folder=tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(before) == 2 * 7  # an index, a header and five tables of each rank
    assert said(captures(), workers=1, folder=tmp_path) == first
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    next(tmp_path.glob("*-0.exposed.parquet")).unlink()
    assert said(captures(), workers=1, folder=tmp_path) == first, "what was lost is made anew"


def test_a_rank_that_cannot_be_read_is_left_out_and_said(tmp_path):
    for path in captures("work"):
        shutil.copy(path, tmp_path)
    (tmp_path / "work_rank2.json.gz").write_bytes(captures("work")[0].read_bytes()[:5000])
    result = job(sorted(tmp_path.glob("*.gz")), workers=2)
    assert [row["rank"] for row in result["ranks"]] == [0, 1]
    assert any(note.startswith("left out: ") and "work_rank2" in note for note in result["notes"])


def dying(path, folder):
    """End this process at a capture's first tries, or at all of them."""
    marks = Path(folder) / f"{Path(path).name}.tries"
    tries = len(marks.read_text()) if marks.exists() else 0
    marks.write_text("x" * (tries + 1))
    if (path == "once" and not tries) or path == "always":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"path": path, "digest": path, "headers": [], "reason": ""}


def test_a_process_that_dies_takes_no_other_capture_along(tmp_path):
    paths = ["a", "once", "b", "always", "c", "d"]
    told = {one["path"]: one["reason"] for one in engines.each(dying, paths, str(tmp_path), workers=2)}
    assert sorted(told) == sorted(paths)
    assert {path: reason for path, reason in told.items() if reason} == {
        "always": "always: the process that read it died 3 times; it may need more memory than is available"
    }


@pytest.mark.slow
@pytest.mark.long
def test_workers_killed_at_random_change_nothing(tmp_path):
    """Children of the command are killed ten times while it reads; then it is killed itself, and the next run goes on."""
    paths = sorted(corpus("ranks/megatron_tp8").glob("*.json.gz"))
    alone = said(paths, workers=1)
    line = [sys.executable, "-m", "kernelscope.cli.main", "ranks", *map(str, paths), "--workers", "2", "--format", "json"]
    draw = random.Random(1)

    def killed(process, times):
        for _ in range(times):
            time.sleep(draw.uniform(0.1, 0.6))
            listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
            for child in listed.stdout.split()[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)

    kills = 0
    for number in range(5):
        folder = tmp_path / str(number)
        process = subprocess.Popen([*line, "-o", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        thread = threading.Thread(target=killed, args=(process, 2))
        thread.start()
        printed, _ = process.communicate(timeout=240)
        thread.join()
        kills += 2
        result = json.loads(printed)
        for row in result["ranks"]:
            row["path"] = Path(row["path"]).name
        assert json.dumps(result, sort_keys=True) == alone, number
    assert kills == 10
    folder = tmp_path / "ended"
    process = subprocess.Popen([*line, "-o", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2.0)
    process.kill()
    process.wait()
    assert said(paths, workers=1, folder=folder / "summaries") == alone


def test_where_processes_have_no_locks_one_reads_all(tmp_path, monkeypatch):
    def none():
        raise OSError(30, "Read-only file system")

    alone = said(captures(), workers=1)
    monkeypatch.setattr(engines.multiprocessing, "Lock", none)
    assert said(captures(), workers=2) == alone
