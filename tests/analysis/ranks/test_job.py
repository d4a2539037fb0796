"""Jobs of several ranks: captures of others, with numbers by plain loops over the files, and by HolisticTraceAnalysis."""

import gzip
import json
import os
import re

import pytest

from kernelscope.analysis.errors import EvidenceError
from kernelscope.analysis.ranks.job import job
from kernelscope.analysis.ranks.parts import JOB_PARTS, TRANSFER, WAITING
from kernelscope.cli.main import main
from kernelscope.reports import ranks as report
from tests.places import ROOT, corpus

DATA = ROOT / "tests" / "data" / "ranks"


def files(name):
    return sorted(corpus(f"ranks/{name}").glob("*.json.gz"))


@pytest.fixture(scope="module")
def megatron():
    return job(files("megatron_tp8"), workers=2)


def collectives(path):
    """Return start and end of a rank's NCCL kernels, ns, in order."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    found = [one for one in events if one.get("ph") == "X" and one.get("cat") == "kernel" and "nccl" in one["name"].lower()]
    return sorted((round(one["ts"] * 1000), round((one["ts"] + one["dur"]) * 1000)) for one in found)


def test_every_rank_adds_up(megatron):
    assert [row["rank"] for row in megatron["ranks"]] == list(range(8))
    for row in megatron["ranks"]:
        assert sum(row[name] for name in JOB_PARTS) == row["step_ns"]
    assert megatron["parts"] == {name: sum(row[name] for row in megatron["ranks"]) for name in JOB_PARTS}


def test_computing_is_what_holistic_trace_analysis_says(megatron):
    printed = corpus("ranks/peer_results/hta_megatron_tp8.txt").read_text().partition("## overlap")[0]
    rows = [line.split() for line in printed.splitlines() if re.match(r"\d+ +\d+ +[\d.]+ ", line)]
    expected = {int(row[1]): float(row[3]) for row in rows}
    assert expected.keys() == set(range(8))
    for row in megatron["ranks"]:
        assert row["compute"] / 1000 == pytest.approx(expected[row["rank"]], abs=1)


def hta(name, head):
    """Return the rows of one of HolisticTraceAnalysis' tables for a job, as lists of words."""
    printed = corpus(f"ranks/peer_results/hta_{name}.txt").read_text()
    mine = printed.partition(f"## {head}\n")[2].partition("##")[0]
    return [line.split() for line in mine.splitlines() if re.match(r"\d+ ", line)]


def test_all_communication_is_what_holistic_trace_analysis_says(megatron):
    [whole] = [int(row[2]) for row in hta("megatron_tp8", "kernels") if row[1] == "COMMUNICATION"]
    assert megatron["parts"][TRANSFER] + megatron["parts"][WAITING] == 1000 * whole, "which does not tell waiting from transfer"


def test_hidden_communication_is_what_holistic_trace_analysis_says():
    result = job(files("param_dlrm8/kineto"), workers=2)
    expected = {int(row[1]): float(row[2]) for row in hta("param_dlrm8_kineto", "overlap")}
    assert expected.keys() == set(range(8))
    for row in result["ranks"]:
        whole = row["hidden_ns"] + row[TRANSFER] + row[WAITING]
        assert 100 * row["hidden_ns"] / whole == pytest.approx(expected[row["rank"]], abs=0.006), "it prints two decimals"


def test_waiting_and_who_came_last_are_those_of_plain_loops(megatron):
    tables = [collectives(path) for path in files("megatron_tp8")]
    assert {len(table) for table in tables} == {84}
    offsets = [row["offset_ns"] for row in megatron["ranks"]]
    waits, last = [0] * 8, {}
    for number in range(84):
        starts = [table[number][0] - offset for table, offset in zip(tables, offsets, strict=True)]
        for rank, start in enumerate(starts):
            begun, over = tables[rank][number]
            waits[rank] += min(max(starts) - start, over - begun)
        first, second = sorted(starts)[-1:], sorted(starts)[-2]
        if first[0] - second > 2 * megatron["clocks"]["uncertainty_ns"]:
            last.setdefault(starts.index(first[0]), []).append(number)
    for row, expected in zip(megatron["ranks"], waits, strict=True):
        assert row[WAITING] == pytest.approx(expected, abs=84)  # nothing runs beside these collectives
    blamed = {}
    for row in megatron["blame"]:
        blamed[row["rank"]] = blamed.get(row["rank"], 0) + row["count"]
    assert {rank: count for rank, count in blamed.items() if rank is not None} == {
        rank: len(numbers) for rank, numbers in last.items()
    }
    assert (megatron["matched"], megatron["unmatched"]) == (84, 0)
    # the least durations of all ranks take 50,099 us, as was counted before
    assert sum(row[TRANSFER] for row in megatron["ranks"]) / 8 == pytest.approx(50_099_000, rel=0.01)


def test_the_answer_names_the_rank(megatron):
    said = report.answer(megatron)
    assert said.startswith("A step takes 634 ms on 8 ranks: waiting for other ranks 59%, computing 21%")
    assert "Ranks 0 and 6 make the others wait most: 1.53 s and 1.22 s a step, added up over ranks (52% and 41% of" in said
    assert "host" in said


def shifted(path, folder, ms):
    """Write a capture whose clock is ahead."""
    capture = json.loads(gzip.decompress(path.read_bytes()))
    for event in capture["traceEvents"]:
        if isinstance(event.get("ts"), int | float):
            event["ts"] += 1000 * ms
    target = folder / path.name
    target.write_bytes(gzip.compress(json.dumps(capture).encode()))
    return target


def test_a_clock_that_is_wrong_is_corrected(megatron, tmp_path):
    paths = files("megatron_tp8")
    result = job([*paths[:3], shifted(paths[3], tmp_path, 250), *paths[4:]], workers=1)
    moved = [after["offset_ns"] - before["offset_ns"] for before, after in zip(megatron["ranks"], result["ranks"], strict=True)]
    assert moved[3] - moved[0] == pytest.approx(250e6, abs=2000)
    assert result["clocks"]["apart_ns"] == pytest.approx(250e6, rel=0.01)
    assert result["clocks"]["uncertainty_ns"] == pytest.approx(megatron["clocks"]["uncertainty_ns"], abs=2000)
    for before, after in zip(megatron["ranks"], result["ranks"], strict=True):
        assert after[WAITING] == pytest.approx(before[WAITING], rel=0.001)
    assert result["blame"][0]["rank"] == 0


@pytest.mark.long
def test_order_and_workers_make_no_difference(megatron):
    assert job(files("megatron_tp8")[::-1], workers=1) == megatron


def test_another_job():
    """HolisticTraceAnalysis names rank 7 a straggler of this job; it comes last in five of eight collectives."""
    result = job(files("param_dlrm8/kineto"), workers=1)
    assert (result["matched"], result["clocks"]["impossible"]) == (8, 0)
    assert sum(row["count"] for row in result["blame"] if row["rank"] == 7) == 5
    assert result["blame"][0]["rank"] == 7


def test_ranks_that_are_missing_are_not_cleared_of_blame():
    result = job(files("hta_sampled_128"), workers=1)
    assert "126 of 128 ranks are missing: what they did, and whether they came last, is unknown" in result["notes"]
    assert "Whom they wait for is unknown: 126 of 128 ranks are missing." in report.answer(result)
    assert result["matched"] == 0, "ends of sampled events lie 21 ms apart"
    assert all(row[WAITING] == 0 for row in result["ranks"])
    assert "blame" not in [table.name for table in report.tables(result)]


def numbered(path, folder, **told):
    """Return a copy of a capture whose own words on its rank are others."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    content["distributedInfo"] = {**content["distributedInfo"], **told}
    (folder / path.name).write_bytes(gzip.compress(json.dumps(content).encode(), 1))
    return folder / path.name


def test_a_rank_that_the_job_does_not_have_is_told_and_so_is_the_one_that_is_missing(tmp_path):
    given = files("param_dlrm8/kineto")
    result = job([*given[:2], numbered(given[2], tmp_path, rank=99), *given[3:]], workers=1)
    assert "1 of 8 ranks are missing (2): what they did, and whether they came last, is unknown" in result["notes"]
    assert any(note.startswith("a job of 8 ranks has no rank 99: ") for note in result["notes"])
    assert result["what_if"] is None


def test_captures_that_tell_of_other_numbers_of_ranks_are_told(tmp_path):
    given = files("param_dlrm8/kineto")
    notes = job([given[0], numbered(given[1], tmp_path, world_size=4)], workers=1)["notes"]
    assert "captures are from jobs of 4 and of 8 ranks: these are different jobs" in notes


def test_collectives_whose_launch_was_cut_off_communicate(tmp_path):
    """The rest of a capture from rank 0's first kernel on: what computes is the union of kernels but NCCL's, by a plain loop."""
    contents = {path.name: json.loads(gzip.decompress(path.read_bytes())) for path in files("megatron_tp8")[:5]}
    kernels = {
        name: [event for event in content["traceEvents"] if event.get("cat") == "kernel"] for name, content in contents.items()
    }
    first = min(event["ts"] for event in next(iter(kernels.values())))
    expected = []
    for name, content in contents.items():
        kept = [
            event for event in content["traceEvents"]
            if event["ph"] != "X" or event["ts"] >= first or event["name"].startswith("ProfilerStep")
        ]  # fmt: skip
        (tmp_path / name).write_bytes(gzip.compress(json.dumps({**content, "traceEvents": kept}).encode(), 1))
        busy = over = 0
        for start, end in sorted((event["ts"], event["ts"] + event["dur"]) for event in kernels[name]
                                 if event["ts"] >= first and "nccl" not in event["name"].lower()):  # fmt: skip
            busy += max(end - max(start, over), 0)
            over = max(over, end)
        expected.append(busy * 1000)
    found = job(sorted(tmp_path.glob("*.gz")), workers=2)
    assert [row["compute"] for row in found["ranks"]] == pytest.approx(expected, abs=2000)
    for row in found["ranks"]:
        assert sum(row[name] for name in JOB_PARTS) == row["step_ns"]


def test_what_is_there_twice_counts_once(tmp_path):
    first, second = files("megatron_tp8")[:2]
    copy = tmp_path / "copy_9.json.gz"
    copy.write_bytes(first.read_bytes())
    result = job([first, second, copy, shifted(first, tmp_path, 1), numbered(second, tmp_path, rank=0)], workers=1)
    assert len(result["ranks"]) == 2
    assert any("the same file as" in note for note in result["notes"])
    assert any("the same work at the same times as" in note for note in result["notes"])
    assert any("rank 0 is" in note for note in result["notes"])
    assert any("6 of 8 ranks are missing" in note for note in result["notes"])


def test_what_is_no_file_is_left_out_and_told(tmp_path, capsys):
    for path in sorted((ROOT / "tests/data/ranks").glob("*"))[:2]:
        (tmp_path / path.name).symlink_to(path)
    os.mkfifo(tmp_path / "rank7.json")
    (tmp_path / "rank8.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "rank9.json").touch()
    assert main(["ranks", str(tmp_path), "--format", "json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert f"left out: {tmp_path}/rank7.json: neither a file nor a folder; name a capture" in notes
    assert f"left out: {tmp_path}/rank8.json: No such file or directory" in notes
    assert f"left out: {tmp_path}/rank9.json: empty; record or copy it again" in notes


def test_what_a_capture_s_reader_must_know_is_told_of_ranks_too(tmp_path):
    """Times that cannot be used change what a rank does; the same sentence of several captures stands once."""
    first, second, third = files("megatron_tp8")[:3]
    text = gzip.decompress(second.read_bytes()).decode()
    token = "gh" + "p_" + "a1B2c3D4e5F6" * 3
    (tmp_path / "rank_1.json").write_text(text.replace('"dur": ', '"dur": -', 7).replace('"aten::mm"', f'"{token}"'))
    notes = job([first, tmp_path / "rank_1.json"], workers=1)["notes"]
    assert "rank_1.json: not all of it could be used: events without a usable time (7)" in notes
    assert any(note.startswith("rank_1.json: holds what looks like a secret: GitHub token") for note in notes)
    (tmp_path / "rank_2.json").write_text(gzip.decompress(third.read_bytes()).decode().replace('"dur": ', '"dur": -', 7))
    notes = job([first, *tmp_path.glob("*.json")], workers=1)["notes"]
    assert "rank_1.json and 1 more: not all of it could be used: events without a usable time (7)" in notes


def test_one_rank_is_no_job(tmp_path):
    broken = tmp_path / "rank1.json"
    broken.write_text("{")
    with pytest.raises(EvidenceError, match="at least two ranks, and 1 can be compared"):
        job([files("megatron_tp8")[0], broken], workers=1)


@pytest.mark.parametrize(
    ("fault", "ms", "cause", "name"),
    [
        ("sleep", 20, "host", "planted"),
        ("input", 10, "host", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        ("work", None, "kernels", "aten::mm"),
    ],
)
def test_a_fault_that_was_planted_into_a_rank(fault, ms, cause, name):
    """Two ranks of gloo, recorded by tests/tools/ranks/job.py: one sleeps in a layer or its input, or multiplies more.

    Each of the four collectives says so, the first one, too: what is before it since the step began is known.
    """
    result = job(sorted(DATA.glob(f"{fault}_rank*.json.gz")), workers=1)
    for row in result["ranks"]:
        assert sum(row[part] for part in JOB_PARTS) == row["step_ns"]
    first = result["blame"][0]
    assert (first["rank"], first["cause"], first["name"], first["count"]) == (1, cause, name, 4)
    assert "Rank 1 makes the others wait most" in report.answer(result)
    if ms is not None:
        assert first["ns"] == pytest.approx(ms * 1e6, rel=0.25)


def test_equal_ranks_are_not_blamed():
    result = job(sorted(DATA.glob("plain_rank*.json.gz")), workers=1)
    assert "No rank makes the others wait much" in report.answer(result)


def test_runs_without_a_kernels_pass_are_left_out_with_the_reason(tmp_path):
    for number in (0, 1):
        folder = tmp_path / f"rank{number}"
        (folder / "clean" / "1").mkdir(parents=True)
        (folder / "clean" / "1" / "steps.jsonl").touch()
        passes = {"clean": {"status": "complete", "folders": ["clean/1"]}}
        record = {"schema": "kernelscope/run/1", "complete": False, "passes": passes, "reason": "the script ended after 40 steps"}
        record |= {"framework": "pytorch", "options": {"network": None, "mode": "train"}, "network": None, "recorder": "profile"}
        (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(EvidenceError, match=r"0 can be compared; left out: .*rank0"):
        job([tmp_path / "rank0", tmp_path / "rank1"], workers=1)
